"""Do what a run's task does, for every line of FILE or of standard input: a language model goes on from each line, a
translator translates it, a parser gives its tree, a tagger the tags of its words, a classifier its label, and a masked
language model what stands for each [MASK]; of that one a text may be given in the place of FILE. Of a run that answers
questions, FILE has the questions with their passages; an encoder without a task of its own gives the vector of each line.

For example:

  clew predict runs/shakespeare-lstm prompts.txt
  echo 'ROMEO:' | clew predict runs/shakespeare-lstm --json --max-new 50
  clew predict runs/tatoeba-transformer sentences.de --beams 8
  clew predict runs/craft-parser sentences.txt --n-best 3
  clew predict runs/ewt-tagger sentences.txt
  clew predict runs/sentiment-lstm reviews.csv --json
  clew predict runs/shakespeare-bert 'To be or not to [MASK]'
  clew predict runs/answer dev-v1.1.json --json

Not every task has every option; `clew generate`, `clew translate`, `clew parse`, `clew tag`, `clew classify`, `clew fill`
and `clew answer` say with --help which it has, and more.
"""

import argparse
from pathlib import Path

from clew.cli import generate
from clew.cli.decoding import FIELDS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="RUN", help="a run directory")
    parser.add_argument("source", metavar="FILE", nargs="?", default="-", help="lines to work on (default: standard input)")
    parser.add_argument("--into", metavar="LANGUAGE", help="the language to write, where a model translates into several")
    generate.add_options(parser)


def run(options: argparse.Namespace) -> int:
    from clew.cli.main import verb_parser
    from clew.core.errors import UserError, shortened
    from clew.runs.directory import check_run, read_config
    from clew.tasks import TASKS

    folder = Path(options.folder)
    check_run(folder)
    options.file = options.file or options.source
    verb = TASKS[read_config(folder).task.name].verb
    is_text = verb == "fill" and has_mask(options.source)
    if options.source != "-" and not is_text and not is_there(options.source):
        remedy = f"a text itself goes to standard input: echo TEXT | clew predict {folder}"
        raise UserError(f"no such file: {shortened(options.source)}; {remedy}")
    if verb == "generate":
        if options.into is not None:
            raise UserError("--into is for models that translate into several languages, which this run is not; leave it out")
        options.prompts = []
        return generate.run(options)
    if verb == "evaluate":
        raise UserError(
            f"{folder} predicts each word from both sides and writes nothing; `clew evaluate {folder}` scores it, and other runs read its "
            f"vectors with embedding.from={folder}"
        )
    source = [options.source] if is_text else ["--file", options.file]
    named = verb_parser(verb).parse_intermixed_args([options.folder, *source, *given(options)])
    return named.run(argparse.Namespace(**{**vars(named), "code": options.code}))


def has_mask(source: str) -> bool:
    """Whether what stands in the place of a file is itself a text to fill in: it has a mask, and there is no such file."""
    from clew.text.tokenizer import MARK

    return MARK.search(source) is not None and not is_there(source)


def is_there(source: str) -> bool:
    try:
        return Path(source).exists()
    except (OSError, ValueError):  # a name that no file can have
        return False


def given(options: argparse.Namespace) -> list[str]:
    """The options that were given, as words again."""
    words = [option for option in ("json", "measure") if getattr(options, option)]
    values = [(name, getattr(options, name)) for name in (*FIELDS, "seed", "device", "into") if getattr(options, name) is not None]
    values += [("samples", options.samples)] if options.samples != 1 else []
    return [f"--{word}" for word in words] + [part for name, value in values for part in (f"--{name.replace('_', '-')}", str(value))]
