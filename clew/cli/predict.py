"""Apply a run to every line of FILE or of standard input: a language model continues the line, a translator translates
it, a parser parses it, a tagger tags its words, a classifier predicts its label, and so on for every task, including
your own.

Texts may be given instead of FILE. A single word is taken as a file name: the named form, such as `clew classify`,
takes it as a text.
FILE may also be a table, or another format of the task: for question answering, questions with their passages. If the
run reads pictures or sounds, every FILE is a picture or a sound, or a table of them.

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

The options depend on the task, which `clew describe RUN` prints. They are listed by the help of the task's named form,
such as `clew tag --help`; for a task of your own they are the fields of its options.
"""

import argparse
import os
import re
from pathlib import Path
from typing import Any

from clew.cli.options.precision import add_precision

NAME = re.compile(r"[\w./~+:@%=,\\-]+")
"""What can be a file name; anything else is a text."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="RUN", help="a run directory")
    parser.add_argument("source", metavar="FILE|TEXT", nargs="*", help="a file, or texts (default: standard input)")
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda", "mps"], help="the device to run on")
    add_precision(parser)
    parser.set_defaults(open=True)


def run(options: argparse.Namespace) -> int:
    from clew.cli.options.ask import ask, load_runs
    from clew.cli.options.forms import form_of, read_forms
    from clew.core.errors import UserError, command, shortened
    from clew.data.lines import close_file
    from clew.runs.asking import own_verb
    from clew.runs.folder.run_files import CONFIG

    folder = next((word for word in options.command_line if os.path.exists(os.path.join(word, CONFIG))), options.folder)
    [loaded] = load_runs(options, [folder])
    verb = own_verb(loaded.config)
    if verb not in loaded.uses:
        raise UserError(
            f"{folder} is a run of the task {loaded.config.task.name}, which gives no answers;"
            f" `{command('clew', 'evaluate', folder)}` scores it, and other runs use its vectors with"
            f" {command(f'embedding.from={folder}')}"
        )
    parsed = parse_options(use_parser(verb, form_of([loaded.uses[verb]])), options.command_line)
    parsed.texts = parsed.source
    if loaded.uses[verb].names_files and parsed.source and not is_list(parsed.source):
        return ask(parsed, [loaded])
    if (
        len(parsed.source) == 1
        and (source := parsed.source[0])
        and parsed.file is None
        and (os.path.exists(source) or NAME.fullmatch(source))
    ):
        if source != "-" and not os.path.exists(source):
            close = close_file(Path(source))
            near = "" if close is None else f"near it there is {shortened(close)}; "
            as_text = command("clew", verb, folder, source)
            if verb not in read_forms():  # of the user's own task
                as_text = f"echo TEXT | {command('clew', 'predict', folder)}"
            raise UserError(f"no such file: {shortened(source)}; {near}to give a single text: {as_text}")
        parsed.texts, parsed.file = [], source
    elif not parsed.source:
        parsed.file = parsed.file or "-"
    return ask(parsed, [loaded])


def is_list(sources: list[str]) -> bool:
    """Whether there is a single source, a table, which lists pictures or sounds."""
    from clew.cli.options.lines import is_table_file

    return len(sources) == 1 and is_table_file(sources[0])


def parse_options(parser: argparse.ArgumentParser, words: list[str]) -> argparse.Namespace:
    """Parse the words after the verb; for an unknown option, suggest the closest one."""
    from clew.cli.options.meant import suggest_option

    options, unknown_words = parser.parse_known_intermixed_args(words)
    if unknown_words:
        suggestion = suggest_option(parser, unknown_words, words)
        parser.error(f"unrecognized arguments: {' '.join(unknown_words)}{suggestion}")
    return options


def use_parser(verb: str, form: dict[str, Any]) -> Any:
    """Return a parser with all options of a use."""
    from clew.cli.main import Parser, add_code
    from clew.cli.options.forms import add_options

    parser = Parser(prog=f"clew {verb}")
    parser.add_argument("folder")
    parser.add_argument("source", nargs="*")
    add_options(parser, verb, form)
    add_code(parser)
    return parser
