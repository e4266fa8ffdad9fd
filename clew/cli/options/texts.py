"""The texts that a verb reads: arguments, lines of a file or of standard input, or records of a table."""

import argparse
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from clew.cli.options.lines import line_batches
from clew.cli.terminal.progress import say

NUMBERED = re.compile(r"(?:text in line|text|sentence|tree|line) (?=\d)")
"""The start of a message about a text, which gives its number."""


def check_texts(options: argparse.Namespace, fields: Mapping[str, str], *, names_files: bool = False) -> None:
    """Refuse texts both as arguments and in --file, columns without a table, and a file name as a text, unless the task
    reads files."""
    from clew.core.errors import UserError

    columns = [
        name for name in fields if name not in options.shared and (not options.texts or name == options.columns[0])
    ]
    if options.texts and options.file is not None:
        raise UserError("texts are given both as arguments and with --file; leave one of them out")
    if not names_files and (file := next((text for text in options.texts if os.path.isfile(text)), None)):
        raise UserError(f"{file} is a file, not a text; use --file {file} to read its lines")
    if columns and options.file in (None, "-"):
        raise UserError(f"--{columns[0]} names a column of a table; give the table with --file")


def text_batches(texts: Sequence[str], file: str | None, what: str = "texts", data: Any = None) -> Iterator[list[str]]:
    """Yield the texts among the arguments, or batches of lines as they arrive; say so if they come from a terminal. A
    file is decoded as the run's section `data` says."""
    if texts:
        yield list(texts)
        return
    if file is None and sys.stdin.isatty():
        say(f"reading {what} from the terminal; end with Ctrl-D")
    yield from line_batches(file, data)


def place_of(texts: Sequence[str], file: str | None, record: str = "line") -> str:
    """Return what precedes the number of a text in a message."""
    return "text" if texts else f"standard input, {record}" if file in (None, "-") else f"{file}, {record}"


@contextmanager
def errors_at(place: str) -> Iterator[None]:
    """Name the place of a text instead of only its number in errors within this context."""
    from clew.core.errors import UserError

    try:
        yield
    except UserError as error:
        sentence = str(error)
        if (match := NUMBERED.match(sentence)) is None:
            raise
        raise UserError(f"{place} {sentence[match.end() :]}") from None
