"""Comma-separated values, as a rule with a header (RFC 4180): fields may be quoted, and then hold commas, newlines and
doubled quotes.

What parts fields (`,`, `;`, `|` or a tab) is seen from the first lines, where it was not given. Line ends are newlines
in quoted fields too, as everywhere.
"""

import csv
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path

from clew.core.errors import UserError
from clew.data.files.given_files import check_delimiter, given_delimiter
from clew.data.format import Format, table_rows
from clew.data.formats.tsv_files import USUAL, is_number, is_value
from clew.data.lines import ended_lines
from clew.data.notes import Notes
from clew.data.records import Column, Record, as_number, check_found, header_columns

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
SEPARATED = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
QUOTED = re.compile(r'"[^"]*("|$)')
LONGEST = 2**24
"""Characters in a field at most: a quote that never closes is found before it takes in a file of any size."""

LOOKED_AT = 100
"""Lines from which a first record that is no header is told."""
LONG = 40
"""Characters of a field that is a text rather than a name."""


def read_csv(
    path: Path, *, header: bool | None = None, wanted: Collection[Column] = (), notes: Notes | None = None
) -> Iterator[Record]:
    """The records; each is placed at the line where it begins. Where `header` does not say whether the first is one, it
    is, unless it looks like the others (`looks_like_data`) and no column is `wanted` by name. Without a header columns
    are numbered."""
    notes = Notes() if notes is None else notes
    name = str(path)
    lines = ended_lines(path)
    blank, first = first_line(lines)
    start = [first, *islice(lines, LOOKED_AT)]
    delimiter = delimiter_at(path, start)
    if header is None and all(as_number(column) is not None for column in wanted):
        header = not looks_like_data(rows_of(start, delimiter))
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST))  # the module's own; it only ever grows here
    reader = csv.reader(chain(blank, start, lines), delimiter=delimiter, strict=True)
    columns: list[str] = []
    found = False
    while True:
        number = reader.line_num + 1
        try:
            values = next(reader)
        except StopIteration:
            break
        except csv.Error as error:
            refuse(error, name, number, reader.line_num, notes)
            continue
        if not values or (len(columns) != 1 and len(values) == 1 and not values[0].strip()):
            notes.skip("empty line", f"{name}:{number}")
        elif not columns and header is not False:
            columns = header_columns(values, f"{name}:{number}")
        else:
            columns = columns or [str(i) for i in range(1, len(values) + 1)]
            if len(values) == len(columns):
                found = True
                yield Record(dict(zip(columns, values, strict=True)), name, number)
                continue
            sentence = (
                f"expected {len(columns)} columns between {DELIMITERS.get(delimiter, repr(delimiter))}, found"
                f" {len(values)}"
            )
            if reader.line_num > number:
                sentence += f" in the record that ends in line {reader.line_num}, where a quote may be missing"
            notes.fault("wrong number of fields", f"{name}:{number}", sentence)
    check_found(found, path, header is not False, notes)


def first_line(lines: Iterator[str]) -> tuple[list[str], str]:
    """The first line with something in it, and the empty ones before it."""
    blank: list[str] = []
    for line in lines:
        if line.strip():
            return blank, line
        blank.append(line)
    return blank, ""


def rows_of(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    """The records of some lines, up to the first that cannot be read."""
    rows: list[list[str]] = []
    with suppress(csv.Error):
        rows.extend(row for row in csv.reader(lines, delimiter=delimiter) if row)
    return rows


def looks_like_data(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row is a record as those below it: a field comes again in its column; or none is what columns
    are usually called, and one has a newline, or is a number, long, or ends as a sentence does, and so does another in
    its column."""
    names = [field.strip() for field in rows[0]] if rows else []
    if names == [str(place) for place in range(len(names))]:
        return False
    columns = list(zip(*(row for row in rows[1:] if len(row) == len(names) and row != rows[0]), strict=True))
    if any(name and name in map(str.strip, column) for name, column in zip(names, columns, strict=False)):
        return True
    if not USUAL.isdisjoint(name.lower() for name in names):
        return False
    kinds = (is_number, is_long, is_sentence)
    return any("\n" in name for name in names) or any(
        kind(name) and any(map(kind, column)) for name, column in zip(names, columns, strict=False) for kind in kinds
    )


def is_long(field: str) -> bool:
    return len(field) > LONG


def is_sentence(field: str) -> bool:
    return field.rstrip().endswith((".", "!", "?"))


def delimiter_at(path: Path, start: Sequence[str] | None = None) -> str:
    """What parts the fields of a file: what was said of it, else what is seen in its first lines."""
    given = given_delimiter(path)
    if given is not None:
        return check_delimiter(given)
    if start is None:
        lines = ended_lines(path)
        start = [first_line(lines)[1], *islice(lines, LOOKED_AT)]
    return find_delimiter(start)


def find_delimiter(lines: Sequence[str]) -> str:
    """What parts the records below into as many fields as the first, or most of them; of several that do, what parts
    the first line most often, outside of quotes. A comma where nothing does."""
    bare = QUOTED.sub("", lines[0])
    there = [delimiter for delimiter in DELIMITERS if delimiter in bare]

    def fit(delimiter: str) -> tuple[bool, int]:
        rows = rows_of(lines, delimiter)
        alike = sum(len(row) == len(rows[0]) for row in rows[1:])
        return 10 * alike >= 9 * (len(rows) - 1), bare.count(delimiter)

    return max(there, key=fit, default=",")


def refuse(error: csv.Error, name: str, number: int, last: int, notes: Notes) -> None:
    """Raise for a quote that never closes; a record with a quote in the wrong place is a fault like others."""
    message = str(error)
    if "unexpected end of data" in message or "field larger" in message:
        within = f"within {LONGEST:,} characters" if "larger" in message else "before the file ends"
        raise UserError(
            f"{name}:{number}: a quote opens in the record that begins here and does not close {within}; close it, or"
            ' double it ("") if it is part of a text, or set data.format=tsv if quotes mean nothing in this file'
        ) from None
    where = f", which ends in line {last}," if last > number else ""
    sentence = (
        f"a field of this record{where} goes on after the quote that closes it; double quotes that are part of a text"
    )
    notes.fault("misplaced quote", f"{name}:{number}", sentence)


def is_csv(lines: Sequence[str]) -> bool:
    """Short names between commas or semicolons, no space around them, and as many fields in most of the records."""
    ended = [f"{line}\n" for line in lines if line.strip()]
    try:
        rows = [row for row in csv.reader(ended, delimiter=find_delimiter(ended[:LOOKED_AT] or [""])) if row]
    except csv.Error:
        return False
    if len(rows) < 2 or len(rows[0]) < 2:
        return False
    header = rows[0]
    names_fit = len(set(header)) == len(header) and not any(is_value(name) or name != name.strip() for name in header)
    return names_fit and 2 * sum(len(row) == len(header) for row in rows[1:]) > len(rows) - 1


CSV = Format(
    about="comma-separated values", rows=table_rows(read_csv), extensions=(".csv",), fits=is_csv, records=read_csv
)
