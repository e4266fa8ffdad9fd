"""Lines of a file or of standard input, and records of a table, in batches, so that a verb works in a pipe."""

import io
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from clew.cli.terminal.progress import say

MOST = 256
"""Most lines in a batch."""
READ = 2**16


def is_table_file(name: str | None) -> bool:
    """Whether a file is a table, as training detects it; this includes formats that the user's code adds."""
    from clew.data import formats
    from clew.data.files.given_files import expand_home

    return name is not None and name != "-" and formats.is_table(expand_home(name))


def is_text_file(name: str) -> bool:
    """Whether a file has lines of text, rather than the bytes of a workbook or another binary table."""
    from clew.data.files.first_bytes import PACKED
    from clew.data.files.given_files import expand_home
    from clew.data.files.unpacking import kind_at

    return kind_at(expand_home(name)) in (None, *PACKED)


def line_batches(name: str | None, data: Any = None) -> Iterator[list[str]]:
    """Yield batches of lines from a file, or from standard input if the name is None or `-`: there, a batch is what
    has arrived, without waiting for more. A file is decoded as the run's section `data` says, if it is given."""
    if name is None or name == "-":
        for arrived in arriving_lines():
            for start in range(0, len(arrived), MOST):
                yield arrived[start : start + MOST]
        return
    from clew.data.lines import read_lines

    lines = read_lines(as_trained(name, data)[0])
    with in_options():
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


def table_fields(
    name: str, kind: Any, data: Any, chosen: Mapping[str, str]
) -> Iterator[list[tuple[int, dict[str, Any]]]]:
    """Yield batches of numbered records as dicts of the fields of `kind`: the columns that are chosen, or those of the
    run's section `data`. Empty cells and nulls become empty strings."""
    from clew.data.notes import Notes
    from clew.data.readers import as_text, table_rows
    from clew.data.values import Faulty
    from clew.runs.asking import takes
    from clew.runs.columns import field_columns

    columns = field_columns(kind, data, chosen)
    has_lists = {each.role for each in columns if takes(kind, each.field, ["a"])}

    def field(values: Mapping[str, Any], role: str) -> Any:
        value = values[role]
        if isinstance(value, (list, tuple)) and role in has_lists:
            return list(value)
        return "" if value is None or (isinstance(value, str) and not value.strip()) else as_text(values, role)

    path, settings = as_trained(name, data)
    notes = Notes(faults=settings.get("faults", "refuse"))
    roles = {each.role: each.column for each in columns}
    names = {each.role: each.names for each in columns}
    with in_options():
        records = enumerate(
            table_rows(path, "texts", roles, settings.get("format"), settings.get("header"), notes, names=names),
            start=1,
        )
        while batch := list(islice(records, MOST)):
            rows = []
            for number, (values, place) in batch:
                try:
                    rows.append((number, {each.field: field(values, each.role) for each in columns}))
                except Faulty as fault:
                    notes.fault(fault.reason, place, str(fault))
            yield rows
    for line in notes.report() if notes.num_faults else ():
        say(line)


def as_trained(name: str, data: Any) -> tuple[Path, dict[str, Any]]:
    """Return the path of a file, and the settings of the section `data` that apply to it: those of how its text is
    read, if it has the extension of the run's training files."""
    from clew.data.files.folders import ending
    from clew.data.files.given_files import expand_home

    path, train = expand_home(name), getattr(data, "train", None)
    files = train if isinstance(train, list) else [] if train is None else [train]
    if ending(path) not in {ending(Path(file)) for file in files}:
        return path, {}
    settings = {name: getattr(data, name, None) for name in ("format", "header", "faults")}
    return data.with_encoding(path), {name: value for name, value in settings.items() if value is not None}


@contextmanager
def in_options() -> Iterator[None]:
    """Reword a reader's messages about training settings: as options of the command, or as what to do with the file."""
    from clew.core.errors import UserError

    try:
        yield
    except UserError as error:
        raise UserError(without_settings(str(error))) from None


REWORDED = (
    (r"if it is in another format, set data\.format to one of: .*", "convert it to .csv, .tsv or .jsonl"),
    (r", or set data\.format=tsv if quotes", ", or rename the file to .tsv if tabs separate its fields and quotes"),
    (r"set data\.format if it is another format", "check that this is the right file"),
    (r"set data\.encoding=\S+, or convert it", "convert it"),
    (
        r"this is not (\S+), as data\.encoding says; .*",
        r"this is not \1, the encoding of the run's training data; convert it to that encoding, or rename the file",
    ),
    (r"rename one, or set data\.header=false if this line is not a header", "rename one, or add a header above"),
    (r", or skip such records with data\.faults=skip", ""),
)
"""Remedies that are settings of training, and what a verb says instead."""


def without_settings(sentence: str) -> str:
    for pattern, remedy in REWORDED:
        sentence = re.sub(pattern, remedy, sentence)
    return re.sub(
        r"data\.(text|source|words|second|question|passage|image|sound)\b(=(?=NAME))?", name_of_option, sentence
    )


def name_of_option(match: re.Match[str]) -> str:
    """Return the option for the column of a role; every text is --text, however training calls it."""
    name = {"source": "text", "words": "text", "image": "picture"}.get(match[1], match[1])
    return f"--{name}{' ' if match[2] else ''}"


def read_stdin() -> str:
    """Read all of standard input. Bytes that are not UTF-8 may have become surrogates, which are refused."""
    from clew.core.errors import UserError

    try:
        text = sys.stdin.read()
        text.encode()
    except UnicodeError as error:
        raise UserError(f"standard input is not UTF-8 at position {error.start}; convert the text first") from None  # type: ignore[attr-defined]
    return text
