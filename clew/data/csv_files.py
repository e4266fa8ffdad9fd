"""Comma-separated values with a header (RFC 4180): fields may be quoted, and then hold commas, newlines and doubled quotes.

What parts fields (`,`, `;` or a tab) is seen from the first line. Line ends are newlines in quoted fields too, as everywhere.
"""

import csv
import re
from collections.abc import Collection, Iterator
from itertools import chain
from pathlib import Path

from clew.core.errors import UserError
from clew.data.lines import ended_lines
from clew.data.notes import Notes
from clew.data.records import Column, Record, check_found, header_columns

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs"}
QUOTED = re.compile(r'"[^"]*("|$)')
LONGEST = 2**24
"""Characters in a field at most: a quote that never closes is found before it takes in a file of any size."""


def read_csv(path: Path, *, header: bool | None = None, wanted: Collection[Column] = (), notes: Notes | None = None) -> Iterator[Record]:
    """The records; each is placed at the line where it begins. Without a header (`header=False`) columns are numbered."""
    notes = Notes() if notes is None else notes
    name = str(path)
    lines = ended_lines(path)
    blank, first = first_line(lines)
    delimiter = find_delimiter(first)
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST))  # the module's own; it only ever grows here
    reader = csv.reader(chain(blank, [first], lines), delimiter=delimiter, strict=True)
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
            sentence = f"expected {len(columns)} columns between {DELIMITERS[delimiter]}, found {len(values)}"
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


def find_delimiter(line: str) -> str:
    """What parts the fields of a line most often, outside of quotes; a comma where nothing does."""
    bare = QUOTED.sub("", line)
    return max(DELIMITERS, key=bare.count)


def refuse(error: csv.Error, name: str, number: int, last: int, notes: Notes) -> None:
    """Raise for a quote that never closes; a record with a quote in the wrong place is a fault like others."""
    message = str(error)
    if "unexpected end of data" in message or "field larger" in message:
        within = f"within {LONGEST:,} characters" if "larger" in message else "before the file ends"
        raise UserError(
            f"{name}:{number}: a quote opens in the record that begins here and does not close {within}; "
            'close it, or double it ("") if it is part of a text, or set data.format=tsv if quotes mean nothing in this file'
        ) from None
    where = f", which ends in line {last}," if last > number else ""
    sentence = f"a field of this record{where} goes on after the quote that closes it; double quotes that are part of a text"
    notes.fault("misplaced quote", f"{name}:{number}", sentence)
