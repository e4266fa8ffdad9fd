"""`python -m clew` is the command."""

import sys

from clew.cli.main import main

sys.exit(main())
