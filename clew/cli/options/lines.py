"""Lines of a file or of standard input, and records of a table, in batches, so that a verb works in a pipe."""

import io
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

MOST = 256
"""Most lines in a batch."""
READ = 2**16
TABLES = (".csv", ".tsv", ".jsonl")
"""Extensions of tables."""


def is_table(name: str | None) -> bool:
    """Whether a file is a table, by its name; this includes formats that the user's code adds."""
    from clew.data.files.folders import ending
    from clew.data.formats import FORMATS, formats_named

    path = Path(name or "")
    if ending(path) in TABLES:
        return True
    named = formats_named(path)
    return len(named) == 1 and FORMATS[named[0]].records is not None


def line_batches(name: str | None) -> Iterator[list[str]]:
    """Yield batches of lines from a file, or from standard input if the name is None or `-`: there, a batch is what
    has arrived, without waiting for more."""
    if name is None or name == "-":
        for arrived in arriving_lines():
            for start in range(0, len(arrived), MOST):
                yield arrived[start : start + MOST]
        return
    from clew.data.lines import read_lines

    lines = read_lines(Path(name))
    while batch := list(islice(lines, MOST)):
        yield batch


def arriving_lines() -> Iterator[list[str]]:
    """Yield the complete lines of every chunk that arrives; the last line may lack its newline."""
    rest, number = b"", 0
    for piece in chunks():
        *whole, rest = (rest + piece).split(b"\n")
        yield [decode(line, number) for number, line in enumerate(whole, start=number + 1)]
        number += len(whole)
    if rest:
        yield [decode(rest, number + 1)]


def chunks() -> Iterator[bytes]:
    """Yield chunks of standard input as soon as they arrive."""
    try:
        descriptor = sys.stdin.fileno()
    except io.UnsupportedOperation:  # a StringIO in its place, which holds the whole text
        yield sys.stdin.read().encode("utf-8", "surrogateescape")
        return
    while piece := os.read(descriptor, READ):
        yield piece


def json_line(fields: Any) -> str:
    return json.dumps(fields, ensure_ascii=False)


def decode(line: bytes, number: int) -> str:
    from clew.core.errors import UserError

    try:
        text = line.removesuffix(b"\r").decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"standard input, line {number}: byte {error.start + 1} is not UTF-8; convert the text first"
        ) from None
    if "\0" in text:
        raise UserError(f"standard input, line {number}: a NUL character, so this is not plain text")
    return text


def table_fields(name: str, roles: Mapping[str, str | None]) -> Iterator[list[tuple[int, tuple[str, ...]]]]:
    """Yield batches of numbered records with the columns of `roles`; empty cells and nulls become empty
    strings."""
    from clew.core.errors import UserError
    from clew.data.files.given_files import expand_home
    from clew.data.notes import Notes
    from clew.data.readers import as_text, table_rows
    from clew.data.values import Faulty

    def field(values: Mapping[str, Any], role: str) -> str:
        value = values[role]
        return "" if value is None or (isinstance(value, str) and not value.strip()) else as_text(values, role)

    try:
        records = enumerate(table_rows(expand_home(name), "texts", roles, None, None, Notes()), start=1)
        while batch := list(islice(records, MOST)):
            rows = []
            for number, (values, place) in batch:
                try:
                    rows.append((number, tuple(field(values, role) for role in roles)))
                except Faulty as fault:
                    raise UserError(f"{place}: {fault}") from None
            yield rows
    except UserError as error:
        raise UserError(in_options(str(error))) from None


def in_options(sentence: str) -> str:
    """Reword a reader's message about training settings in terms of command-line options."""
    without = r"; if it is in another format, set data\.format.*|, or skip such records with data\.faults=skip"
    return re.sub(r"data\.(text|second|question|passage)\b(=(?=NAME))?", name_of_option, re.sub(without, "", sentence))


def name_of_option(match: re.Match[str]) -> str:
    return f"--{match[1]}{' ' if match[2] else ''}"


def read_stdin() -> str:
    """Read all of standard input. Bytes that are not UTF-8 may have become surrogates, which are refused."""
    from clew.core.errors import UserError

    try:
        text = sys.stdin.read()
        text.encode()
    except UnicodeError as error:
        raise UserError(f"standard input is not UTF-8 at position {error.start}; convert the text first") from None  # type: ignore[attr-defined]
    return text
