"""The texts that a verb works on: words of the command, lines of a file or of standard input, or records of a table."""

import argparse
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from clew.cli.options.lines import some_lines
from clew.cli.terminal.progress import say

NUMBERED = re.compile(r"(?:text in line|text|sentence|tree|line) (?=\d)")
"""How a sentence begins that says of a text by its number what is wrong with it."""


def check_texts(options: argparse.Namespace, fields: Mapping[str, str], *, names_files: bool = False) -> None:
    """Refuses texts that are given twice, and columns of what is no table; a file's name too, unless files are what is
    asked about."""
    from clew.core.errors import UserError

    columns = [
        name for name in fields if name not in options.shared and (not options.texts or name == options.columns[0])
    ]
    if options.texts and options.file is not None:
        raise UserError("texts are given, and a file of texts too; leave out --file or the texts")
    if not names_files and (file := next((text for text in options.texts if os.path.isfile(text)), None)):
        raise UserError(f"{file} is a file; its lines are read with --file {file}")
    if columns and options.file in (None, "-"):
        raise UserError(f"--{columns[0]} is a column of a table; name its file with --file")


def some_texts(texts: Sequence[str], file: str | None, what: str = "texts") -> Iterator[list[str]]:
    """Those of the command, or lines as they arrive; a terminal is told that it is read from."""
    if texts:
        yield list(texts)
        return
    if file is None and sys.stdin.isatty():
        say(f"reading {what} from the terminal; Ctrl-D ends them")
    yield from some_lines(file)


def place_of(texts: Sequence[str], file: str | None, record: str = "line") -> str:
    """What comes before a text's number where something is said of it."""
    return "text" if texts else f"standard input, {record}" if file in (None, "-") else f"{file}, {record}"


@contextmanager
def placed(place: str) -> Iterator[None]:
    """Within this context what is said of a text by its number is said of its place."""
    from clew.core.errors import UserError

    try:
        yield
    except UserError as error:
        sentence = str(error)
        if (found := NUMBERED.match(sentence)) is None:
            raise
        raise UserError(f"{place} {sentence[found.end() :]}") from None
