"""Do what a run's task does, for every line of FILE or of standard input: a language model goes on from each line, a
translator translates it, a parser gives its tree, a tagger the tags of its words, a classifier its label, and so on for every
task, one of yours too. A text with a space in it may be given in the place of FILE. FILE may also be a table, or another file
that the task reads: of a run that answers questions it has the questions with their passages.

For example:

  clew predict runs/shakespeare-lstm prompts.txt
  echo 'ROMEO:' | clew predict runs/shakespeare-lstm --json --max-new 50
  clew predict runs/tatoeba-transformer sentences.de --beams 8
  clew predict runs/craft-parser sentences.txt --n-best 3
  clew predict runs/ewt-tagger sentences.txt
  clew predict runs/sentiment-lstm reviews.csv --json
  clew predict runs/shakespeare-bert 'To be or not to [MASK]'
  clew predict runs/answer dev-v1.1.json --json

Which options there are depends on the task. `clew describe RUN` names it, and the help of its named form, such as
`clew tag --help`, lists them; of a task of yours they are the fields of its options.
"""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="RUN", help="a run directory")
    parser.add_argument("source", metavar="FILE|TEXT", nargs="?", default="-", help="what to work on (default: standard input)")
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda", "mps"], help="where the model runs")
    parser.set_defaults(open=True)


def run(options: argparse.Namespace) -> int:
    from clew.cli.ask import ask, load_runs
    from clew.cli.forms import add_options, form_of
    from clew.cli.main import Parser
    from clew.core.errors import UserError, shortened
    from clew.runs.asking import own_verb

    [loaded] = load_runs(options, [options.folder])
    folder, verb = loaded.folder, own_verb(loaded.config)
    if verb not in loaded.uses:
        raise UserError(
            f"{folder} is a run of the task {loaded.config.task.name}, which answers nothing by itself; "
            f"`clew evaluate {folder}` scores it, and other runs read its vectors with embedding.from={folder}"
        )
    is_text = not is_there(options.source) and any(map(str.isspace, options.source.strip()))
    if options.source != "-" and not is_text and not is_there(options.source):
        remedy = f"a text itself goes to standard input: echo TEXT | clew predict {folder}"
        raise UserError(f"no such file: {shortened(options.source)}; {remedy}")
    form = form_of([loaded.uses[verb]])
    parser = Parser(prog=f"clew {verb}")
    add_options(parser, verb, form)
    asked = parser.parse_args(options.more)
    common = {"folder": options.folder, "device": options.device, "code": options.code, "texts": [options.source] if is_text else []}
    asked = argparse.Namespace(**{**vars(asked), **common})
    asked.file = None if is_text else asked.file or options.source
    return ask(asked, [loaded])


def is_there(source: str) -> bool:
    try:
        return Path(source).exists()
    except (OSError, ValueError):  # a name that no file can have
        return False
