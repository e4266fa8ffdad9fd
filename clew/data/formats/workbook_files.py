"""Excel workbooks (.xlsx): the rows of the first sheet, as a table. openpyxl reads them (`pip install 'clew[tables]'`).

A cell is the text that stands there: of a formula its value, of a date its ISO form, and nothing of an empty one.
"""

import zipfile
from collections.abc import Collection, Iterator
from importlib import import_module
from itertools import chain, islice
from pathlib import Path
from typing import Any

from clew.core.errors import UserError
from clew.core.files import open_file
from clew.data.files.unpacking import BROKEN, most_unpacked, too_packed
from clew.data.format import Format, table_rows
from clew.data.formats.csv_files import LOOKED_AT, looks_like_data
from clew.data.notes import Notes
from clew.data.records import Column, Record, as_number, check_found, header_columns


def read_workbook(
    path: Path, *, header: bool | None = None, wanted: Collection[Column] = (), notes: Notes | None = None
) -> Iterator[Record]:
    """The records; the first row is a header as that of a CSV is. Rows and columns without anything in them are passed
    over."""
    notes = Notes() if notes is None else notes
    rows = filled_rows(path, notes)
    start = list(islice(rows, LOOKED_AT))
    if header is None:
        is_named = any(as_number(column) is None for column in wanted)
        header = is_named or not looks_like_data([row for _, row in start])
    columns: list[str] = []
    found = False
    for number, row in chain(start, rows):
        if not columns and header:
            columns = header_columns(row, f"{path}:{number}")
            continue
        columns = columns or [str(place) for place in range(1, len(row) + 1)]
        if len(row) > len(columns):
            notes.fault(
                "wrong number of fields", f"{path}:{number}", f"expected {len(columns)} cells, found {len(row)}"
            )
            continue
        found = True
        yield Record(dict(zip(columns, [*row, *[""] * (len(columns) - len(row))], strict=True)), str(path), number)
    check_found(found, path, bool(header), notes)


def filled_rows(path: Path, notes: Notes) -> Iterator[tuple[int, list[str]]]:
    """The rows with something in them, up to their last cell with something in it, and their numbers."""
    with zipfile.ZipFile(path) as archive:
        if sum(member.file_size for member in archive.infolist()) > most_unpacked(path.stat().st_size):
            raise too_packed(path)
    openpyxl = load_openpyxl()
    try:
        with open_file(path) as file:  # openpyxl goes by the end of a name, but not of a file that is open
            book = openpyxl.load_workbook(file, read_only=True, data_only=True)
            for number, values in enumerate(book.worksheets[0].iter_rows(values_only=True), start=1):
                row = [cell(value) for value in values]
                while row and not row[-1].strip():
                    row.pop()
                if row:
                    yield number, row
                else:
                    notes.skip("empty line", f"{path}:{number}")
            book.close()
    except (*BROKEN, KeyError, ValueError, TypeError, AttributeError, IndexError, SyntaxError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(
            f"{path}: this workbook cannot be read ({str(error)[:80]}); it is damaged, so save it again"
        ) from None


def cell(value: Any) -> str:
    """A number without a fraction is written without a point."""
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def load_openpyxl() -> Any:
    try:
        return import_module("openpyxl")
    except ModuleNotFoundError:
        raise UserError(
            "workbooks are read with openpyxl, which is not installed; `pip install 'clew[tables]'`, or save the sheet"
            " as CSV"
        ) from None


WORKBOOK = Format(about="an Excel workbook", rows=table_rows(read_workbook), kinds=("xlsx",), records=read_workbook)
