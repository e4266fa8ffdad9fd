"""Do what a run's task does, for every line of FILE or of standard input. A language model goes on from each line.

For example:

  clew predict runs/shakespeare-lstm prompts.txt
  echo 'ROMEO:' | clew predict runs/shakespeare-lstm --json --max-new 50
"""

import argparse

from clew.cli import generate


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="RUN", help="a run directory")
    parser.add_argument("source", metavar="FILE", nargs="?", default="-", help="lines to work on (default: standard input)")
    generate.add_options(parser)


def run(options: argparse.Namespace) -> int:
    options.prompts = []
    options.file = options.file or options.source
    return generate.run(options)
