"""Do what a run's task does, for every line of FILE or of standard input: a language model goes on from it, a translation
model translates it, a parser parses it. The verb of that name has the options that fit it alone.

For example:

  clew predict runs/shakespeare-lstm prompts.txt
  echo 'ROMEO:' | clew predict runs/shakespeare-lstm --json --max-new 50
  echo 'Guten Morgen!' | clew predict runs/tatoeba-transformer --n-best 3
  clew predict runs/craft-parser sentences.txt --n-best 3
"""

import argparse
from importlib import import_module
from pathlib import Path

from clew.cli import generate


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="RUN", help="a run directory")
    parser.add_argument("source", metavar="FILE", nargs="?", default="-", help="lines to work on (default: standard input)")
    parser.add_argument("--into", metavar="LANGUAGE", default="", help="the language to write, where a model translates into several")
    generate.add_options(parser)


def run(options: argparse.Namespace) -> int:
    from clew.cli.main import verb_parser
    from clew.core.errors import UserError
    from clew.runs.directory import check_run, read_config
    from clew.tasks import TASKS

    check_run(Path(options.folder))
    verb = TASKS[read_config(Path(options.folder)).task.name].verb  # type: ignore[attr-defined]
    if verb != "generate" and (options.samples != 1 or options.measure):
        raise UserError("--samples and --measure are for language models, which this run is not; leave them out")
    if verb == "generate" and options.into:
        raise UserError("--into is for models that translate into several languages, which this run is not; leave it out")
    given = {**vars(options), "runs": [options.folder], "prompts": [], "file": options.file or options.source}
    whole = argparse.Namespace(**{**vars(verb_parser(verb).parse_args([options.folder])), **given})
    if verb == "parse" and options.json:
        whole.format = "json"
    return import_module(f"clew.cli.{verb}").run(whole)
