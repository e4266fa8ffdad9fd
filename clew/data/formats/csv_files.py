"""Comma-separated values (RFC 4180), usually with a header. Quoted fields may contain commas, newlines and doubled
quotes.

If no delimiter is given (`,`, `;`, `|` or a tab), it is detected from the first lines. All line ends are read as
newlines, in quoted fields too.
"""

import csv
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path

from clew.core.errors import UserError
from clew.data.files.given_files import check_delimiter, given_delimiter
from clew.data.format import Format, text_table_rows
from clew.data.formats.tsv_files import USUAL, is_numeric, is_value
from clew.data.lines import ended_lines
from clew.data.notes import Notes
from clew.data.records import Column, Record, as_number, check_found, header_columns

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
SEPARATED = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
QUOTED = re.compile(r'"[^"]*("|$)')
LONGEST = 2**24
"""Maximum number of characters in a field. The limit stops a quote that never closes from reading a whole large file
into memory."""

LOOKED_AT = 100
"""Number of lines from which a header and a delimiter are detected."""
LONG = 40
"""A field with more characters is a text rather than a name."""


def read_csv(
    path: Path, *, header: bool | None = None, wanted: Collection[Column] = (), notes: Notes | None = None
) -> Iterator[Record]:
    """Yield the records, each with the line where it begins. If `header` is None, the first record is a header unless
    it looks like the others (`looks_like_data`) and no column is `wanted` by name. Without a header, columns are
    numbered."""
    notes = Notes() if notes is None else notes
    name = str(path)
    lines = ended_lines(path)
    blank, first = first_line(lines)
    start = [first, *islice(lines, LOOKED_AT)]
    delimiter = delimiter_at(path, start)
    if header is None and all(as_number(column) is not None for column in wanted):
        header = not looks_like_data(rows_of(start, delimiter))
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST))  # global in the module, so it is never lowered
    reader = csv.reader(chain(blank, start, lines), delimiter=delimiter, strict=True)
    columns: list[str] = []
    has_records = False
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
                has_records = True
                yield Record(dict(zip(columns, values, strict=True)), name, number)
                continue
            sentence = (
                f"expected {len(columns)} columns between {DELIMITERS.get(delimiter, repr(delimiter))},"
                f" found {len(values)}"
            )
            if reader.line_num > number:
                sentence += f" in the record that ends in line {reader.line_num}, where a quote may be missing"
            notes.fault("wrong number of fields", f"{name}:{number}", sentence)
    check_found(has_records, path, header is not False, notes)


def first_line(lines: Iterator[str]) -> tuple[list[str], str]:
    """Return the empty lines at the beginning, and the first line that is not empty."""
    blank: list[str] = []
    for line in lines:
        if line.strip():
            return blank, line
        blank.append(line)
    return blank, ""


def rows_of(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    """Return the records of some lines, up to the first that cannot be read."""
    rows: list[list[str]] = []
    with suppress(csv.Error):
        rows.extend(row for row in csv.reader(lines, delimiter=delimiter) if row)
    return rows


def looks_like_data(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row is a record rather than a header: one of its fields occurs again in its column; or no field
    is a usual column name (`USUAL`), and one has a newline, or is a number, long, or a sentence like another in its
    column."""
    names = [field.strip() for field in rows[0]] if rows else []
    if names == [str(index) for index in range(len(names))]:
        return False
    columns = list(zip(*(row for row in rows[1:] if len(row) == len(names) and row != rows[0]), strict=True))
    if any(name and name in map(str.strip, column) for name, column in zip(names, columns, strict=False)):
        return True
    if not USUAL.isdisjoint(name.lower() for name in names):
        return False
    kinds = (is_numeric, is_long, is_sentence)
    return any("\n" in name for name in names) or any(
        kind(name) and any(map(kind, column)) for name, column in zip(names, columns, strict=False) for kind in kinds
    )


def is_long(field: str) -> bool:
    return len(field) > LONG


def is_sentence(field: str) -> bool:
    return field.rstrip().endswith((".", "!", "?"))


def delimiter_at(path: Path, start: Sequence[str] | None = None) -> str:
    """Return the delimiter of a file: the specified one, or else the one detected in its first lines."""
    delimiter = given_delimiter(path)
    if delimiter is not None:
        return check_delimiter(delimiter)
    if start is None:
        lines = ended_lines(path)
        start = [first_line(lines)[1], *islice(lines, LOOKED_AT)]
    return find_delimiter(start)


def find_delimiter(lines: Sequence[str]) -> str:
    """Detect the delimiter that gives most records as many fields as the first. Of several, take the most frequent in
    the first line, outside quotes. The default is a comma."""
    unquoted = QUOTED.sub("", lines[0])
    candidates = [delimiter for delimiter in DELIMITERS if delimiter in unquoted]

    def fit(delimiter: str) -> tuple[bool, int]:
        rows = rows_of(lines, delimiter)
        num_alike = sum(len(row) == len(rows[0]) for row in rows[1:])
        return 10 * num_alike >= 9 * (len(rows) - 1), unquoted.count(delimiter)

    return max(candidates, key=fit, default=",")


def refuse(error: csv.Error, name: str, number: int, last: int, notes: Notes) -> None:
    """Raise an error for a quote that never closes, and note a fault for a misplaced quote."""
    message = str(error)
    if "unexpected end of data" in message or "field larger" in message:
        limit = f"within {LONGEST:,} characters" if "larger" in message else "before the file ends"
        raise UserError(
            f"{name}:{number}: a quote opens in the record that begins here and does not close {limit}; close it, or"
            ' double it ("") if it is part of a text, or set data.format=tsv if quotes mean nothing in this file'
        ) from None
    where = f", which ends in line {last}," if last > number else ""
    sentence = f"a field of this record{where} continues after its closing quote; double quotes that are part of a text"
    notes.fault("misplaced quote", f"{name}:{number}", sentence)


def is_csv(lines: Sequence[str]) -> bool:
    """Whether the first line has short, unpadded names between delimiters, and most records have as many fields."""
    filled = [f"{line}\n" for line in lines if line.strip()]
    try:
        rows = [row for row in csv.reader(filled, delimiter=find_delimiter(filled[:LOOKED_AT] or [""])) if row]
    except csv.Error:
        return False
    if len(rows) < 2 or len(rows[0]) < 2:
        return False
    header = rows[0]
    names_fit = len(set(header)) == len(header) and not any(is_value(name) or name != name.strip() for name in header)
    return names_fit and 2 * sum(len(row) == len(header) for row in rows[1:]) > len(rows) - 1


CSV = Format(
    about="comma-separated values", rows=text_table_rows(read_csv), extensions=(".csv",), fits=is_csv, records=read_csv
)
