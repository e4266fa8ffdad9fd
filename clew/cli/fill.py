"""Guess the words in the places of [MASK] (or <mask>) with a masked language model, such as BERT.

Every guess is a line: `probability<TAB>token<TAB>the text with it`, the best first. Several masks of a text are guessed one
by one, the others left as they are. Without TEXT, every line of --file or of standard input is a text, and an empty line
follows the guesses of each.

  clew fill runs/shakespeare-bert 'To be or not to [MASK]' --top 3
  clew fill runs/shakespeare-bert 'The [MASK] of my [MASK] is gone.' --json
  clew fill runs/shakespeare-bert 'What is your name?' --second 'My name is [MASK].'
  clew fill runs/shakespeare-bert --file gaps.txt

  clew fill runs/shakespeare-bert --file pairs.csv --text first --second then

With --second, or where a line has two texts with a tab between, a line `probability<TAB>[follows]<TAB>second text` comes
first: how likely the second text comes after the first, by a run that was trained to tell; no mask is needed then. Of a table
(.csv, .tsv, .jsonl) --text and --second name the columns.
"""

import argparse
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("folder", metavar="RUN", help="a run directory")
    add("texts", metavar="TEXT", nargs="*", default=[], help="a text with [MASK] in the place of words (default: standard input)")
    add("--file", metavar="FILE", help="texts, one a line, or a table (default: standard input)")
    add("--text", metavar="COLUMN", help="FILE is a table, and this column, by name or number, has the text")
    add("--second", metavar="TEXT|COLUMN", help="a text that may come after one TEXT, or its column in a table")
    add("--top", type=int, default=5, metavar="N", help="guesses at each mask (default: 5)")
    add("--json", action="store_true", help="one JSON object a text")
    add("--out", metavar="FILE", help="write here instead of to standard output")
    add("--device", default="auto", choices=["auto", "cpu", "cuda", "mps"], help="where the model runs")


def run(options: argparse.Namespace) -> int:
    from clew.cli.texts import check_texts, has_columns, place_of, placed
    from clew.core.errors import UserError
    from clew.runs.loaded import check_verb, load_run

    check_texts(options)
    if options.top < 1:
        raise UserError(f"--top ({options.top}) must be at least 1")
    run = load_run(options.folder, device=options.device, code=None if options.code is None else Path(options.code))
    check_verb(run, "fill")
    is_one = len(options.texts) == 1
    with (
        Path(options.out).open("w", encoding="utf-8", newline="\n") if options.out else nullcontext(sys.stdout) as file,
        placed(place_of(options.texts, options.file, "record" if has_columns(options) else "line")),
    ):
        for first, texts in given_texts(options):
            for number, filled in enumerate(run.fill(texts, top=options.top, first=first), start=first):
                lines = [as_json(number, filled)] if options.json else [*as_lines(filled), *([] if is_one else [""])]
                file.writelines(f"{line}\n" for line in lines)
            file.flush()
    return 0


def given_texts(options: argparse.Namespace) -> Iterator[tuple[int, list[Any]]]:
    """Texts, some at a time, with the number of the first: those of the command, lines as they arrive, or records of a table; of these and
    of lines an empty one is an empty text."""
    from clew.cli.lines import table_fields
    from clew.cli.texts import has_columns, some_texts

    if options.texts and options.second is not None:
        yield 1, [(options.texts[0], options.second)]
    elif has_columns(options):
        wanted = {"text": options.text, **({} if options.second is None else {"second": options.second})}
        for some in table_fields(options.file, wanted):
            yield some[0][0], ["" if "" in fields else fields[0] if len(fields) == 1 else fields for _, fields in some]
    else:
        first = 1
        for lines in some_texts(options.texts, options.file):
            if lines:
                yield first, [tuple(line.split("\t", 1)) if "\t" in line.strip() and not options.texts else line for line in lines]
            first += len(lines)


def as_lines(filled: Any) -> list[str]:
    if filled is None:
        return []
    follows = [] if filled.follows is None else [f"{filled.follows:.4f}\t[follows]\t{' '.join(filled.second.split())}"]
    guesses = [guess for guesses in filled.masks for guess in guesses]
    return [*follows, *(f"{guess.probability:.4f}\t{guess.token}\t{' '.join(guess.text.split())}" for guess in guesses)]


def as_json(number: int, found: Any) -> str:
    from clew.cli.lines import json_line
    from clew.runs.as_json import filled

    return "\n".join(map(json_line, filled(number, None, found)))
