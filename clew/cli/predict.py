"""Do what a run's task does, for every line of FILE or of standard input: a language model goes on from each line, a
translator translates it, a parser gives its tree, a tagger the tags of its words, a classifier its label, and so on for
every task, one of yours too. Texts may be given in the place of FILE, a single one where it is no name, as one with a
space in it. FILE may also be a table, or another file that the task reads: of a run that answers questions it has the
questions with their passages. Of a run that reads pictures or sounds every FILE is one of them, or a table of them.

For example:

  clew predict runs/shakespeare-lstm prompts.txt
  echo 'ROMEO:' | clew predict runs/shakespeare-lstm --json --max-new 50
  clew predict runs/tatoeba-transformer sentences.de --beams 8
  clew predict runs/craft-parser sentences.txt --n-best 3
  clew predict runs/ewt-tagger sentences.txt
  clew predict runs/sentiment-lstm reviews.csv --json
  clew predict runs/shakespeare-bert 'To be or not to [MASK]'
  clew predict runs/answer dev-v1.1.json --json
  clew predict runs/fashion-mnist picture.png
  clew predict runs/digits-sounds *.wav

Which options there are depends on the task. `clew describe RUN` names it, and the help of its named form, such as
`clew tag --help`, lists them; of a task of yours they are the fields of its options.
"""

import argparse
import os
import re
from typing import Any

from clew.cli.options.precision import add_precision

NAME = re.compile(r"[\w./~+:@%=,\\-]+")
"""What may be the name of a file; anything else in its place is a text."""
TABLES = (".csv", ".tsv", ".jsonl")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="RUN", help="a run directory")
    parser.add_argument("source", metavar="FILE|TEXT", nargs="*", help="a file, or texts (default: standard input)")
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda", "mps"], help="where the model runs")
    add_precision(parser)
    parser.set_defaults(open=True)


def run(options: argparse.Namespace) -> int:
    from clew.cli.options.ask import ask, load_runs
    from clew.cli.options.forms import form_of
    from clew.core.errors import UserError, command, shortened
    from clew.runs.asking import own_verb
    from clew.runs.directory import CONFIG

    folder = next((word for word in options.command_line if os.path.exists(os.path.join(word, CONFIG))), options.folder)
    [loaded] = load_runs(options, [folder])
    verb = own_verb(loaded.config)
    if verb not in loaded.uses:
        raise UserError(
            f"{folder} is a run of the task {loaded.config.task.name}, which answers nothing by itself;"
            f" `{command('clew', 'evaluate', folder)}` scores it, and other runs read its vectors with"
            f" {command(f'embedding.from={folder}')}"
        )
    asked = use_parser(verb, form_of([loaded.uses[verb]])).parse_intermixed_args(options.command_line)
    asked.texts = asked.source
    if loaded.uses[verb].names_files and asked.source and not is_table(asked.source):
        return ask(asked, [loaded])
    if (
        len(asked.source) == 1
        and (source := asked.source[0])
        and asked.file is None
        and (os.path.exists(source) or NAME.fullmatch(source))
    ):
        if source != "-" and not os.path.exists(source):
            remedy = f"a text itself goes to standard input: echo TEXT | {command('clew', 'predict', folder)}"
            raise UserError(f"no such file: {shortened(source)}; {remedy}")
        asked.texts, asked.file = [], source
    elif not asked.source:
        asked.file = asked.file or "-"
    return ask(asked, [loaded])


def is_table(sources: list[str]) -> bool:
    """Whether it is one table, which names pictures or sounds and is none itself."""
    return len(sources) == 1 and os.path.splitext(sources[0])[1].lower() in TABLES


def use_parser(verb: str, form: dict[str, Any]) -> Any:
    """All that may be said of a run with this use."""
    from clew.cli.main import Parser, add_code
    from clew.cli.options.forms import add_options

    parser = Parser(prog=f"clew {verb}")
    parser.add_argument("folder")
    parser.add_argument("source", nargs="*")
    add_options(parser, verb, form)
    add_code(parser)
    return parser
