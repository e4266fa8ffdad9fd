"""Lines of a file or of standard input, and records of a table, some at a time, so that a verb can stand in a pipe."""

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
"""Lines that are handed on together, where so many are there."""
READ = 2**16
TABLES = (".csv", ".tsv", ".jsonl")
"""How the names of tables end."""


def is_table(name: str | None) -> bool:
    """Whether a file is one by its name; those of a format of the user's own are too."""
    from clew.data.files.folders import ending
    from clew.data.formats import FORMATS, formats_named

    path = Path(name or "")
    if ending(path) in TABLES:
        return True
    named = formats_named(path)
    return len(named) == 1 and FORMATS[named[0]].records is not None


def some_lines(name: str | None) -> Iterator[list[str]]:
    """The lines of a file; of standard input, where there is no name or it is `-`, those that are there, without
    waiting for more."""
    if name is None or name == "-":
        for arrived in arriving_lines():
            for start in range(0, len(arrived), MOST):
                yield arrived[start : start + MOST]
        return
    from clew.data.lines import read_lines

    found = read_lines(Path(name))
    while some := list(islice(found, MOST)):
        yield some


def arriving_lines() -> Iterator[list[str]]:
    """The whole lines of every piece that arrives; the last line need not end."""
    rest, number = b"", 0
    for piece in pieces():
        *whole, rest = (rest + piece).split(b"\n")
        yield [decoded(line, number) for number, line in enumerate(whole, start=number + 1)]
        number += len(whole)
    if rest:
        yield [decoded(rest, number + 1)]


def pieces() -> Iterator[bytes]:
    """What is there of standard input, as soon as it is."""
    try:
        descriptor = sys.stdin.fileno()
    except io.UnsupportedOperation:  # a text in its place, all of which is there
        yield sys.stdin.read().encode("utf-8", "surrogateescape")
        return
    while piece := os.read(descriptor, READ):
        yield piece


def json_line(fields: Any) -> str:
    return json.dumps(fields, ensure_ascii=False)


def decoded(line: bytes, number: int) -> str:
    from clew.core.errors import UserError

    try:
        text = line.removesuffix(b"\r").decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"standard input, line {number}: byte {error.start + 1} is not UTF-8; convert it first"
        ) from None
    if "\0" in text:
        raise UserError(f"standard input, line {number}: a NUL character, so this is no plain text")
    return text


def table_fields(name: str, wanted: Mapping[str, str | None]) -> Iterator[list[tuple[int, tuple[str, ...]]]]:
    """The columns that are wanted, by the option that names each, of every record, numbered; what is empty or null is
    an empty text."""
    from clew.core.errors import UserError
    from clew.data.files.given_files import at_home
    from clew.data.notes import Notes
    from clew.data.readers import as_text, table_rows
    from clew.data.values import Faulty

    def field(values: Mapping[str, Any], role: str) -> str:
        value = values[role]
        return "" if value is None or (isinstance(value, str) and not value.strip()) else as_text(values, role)

    try:
        records = enumerate(table_rows(at_home(name), "texts", wanted, None, None, Notes()), start=1)
        while some := list(islice(records, MOST)):
            found = []
            for number, (values, place) in some:
                try:
                    found.append((number, tuple(field(values, role) for role in wanted)))
                except Faulty as fault:
                    raise UserError(f"{place}: {fault}") from None
            yield found
    except UserError as error:
        raise UserError(in_options(str(error))) from None


def in_options(sentence: str) -> str:
    """What readers say of the settings of training, as options of the command."""
    without = (
        r"; if it is something else, say so with data\.format.*|, or leave such records out with data\.faults=skip"
    )
    return re.sub(r"data\.(text|second|question|passage)\b(=(?=NAME))?", name_of_option, re.sub(without, "", sentence))


def name_of_option(found: re.Match[str]) -> str:
    return f"--{found[1]}{' ' if found[2] else ''}"


def read_stdin() -> str:
    """All of standard input; where bytes that are no text were let through, they are half characters now."""
    from clew.core.errors import UserError

    try:
        text = sys.stdin.read()
        text.encode()
    except UnicodeError as error:
        raise UserError(f"standard input is not UTF-8 at {error.start}; convert it first") from None  # type: ignore[attr-defined]
    return text
