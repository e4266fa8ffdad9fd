"""The worker process of a search, `python -m clew.cli.trial`, which `clew train --search --jobs 2` starts."""

import sys

from clew.cli.options.code import load_code
from clew.studies.workers import work

if __name__ == "__main__":
    sys.exit(work(load_code))
