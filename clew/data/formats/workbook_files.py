"""Excel workbooks (.xlsx): the rows of the first sheet as a table, read with openpyxl (`pip install 'clew[tables]'`).

Every cell becomes text: a formula its value, a date its ISO form, and an empty cell the empty text.
"""

import zipfile
from collections.abc import Collection, Iterator
from importlib import import_module
from itertools import chain, islice
from pathlib import Path
from typing import Any

from clew.core.errors import UserError
from clew.core.files import open_file
from clew.data.files.unpacking import BROKEN, largest_unpacked_size, unpacked_size_error
from clew.data.format import Format, text_table_rows
from clew.data.formats.csv_files import LOOKED_AT, looks_like_data
from clew.data.notes import Notes
from clew.data.records import Column, Record, as_number, check_found, header_columns


def read_workbook(
    path: Path, *, header: bool | None = None, wanted: Collection[Column] = (), notes: Notes | None = None
) -> Iterator[Record]:
    """Yield the records. Whether the first row is a header is decided as for a CSV. Empty rows and cells at the end of
    a row are skipped."""
    notes = Notes() if notes is None else notes
    rows = filled_rows(path, notes)
    start = list(islice(rows, LOOKED_AT))
    if header is None:
        is_named = any(as_number(column) is None for column in wanted)
        header = is_named or not looks_like_data([row for _, row in start])
    columns: list[str] = []
    has_records = False
    for number, row in chain(start, rows):
        if not columns and header:
            columns = header_columns(row, f"{path}:{number}")
            continue
        columns = columns or [str(number) for number in range(1, len(row) + 1)]
        if len(row) > len(columns):
            notes.fault(
                "wrong number of fields", f"{path}:{number}", f"expected {len(columns)} cells, found {len(row)}"
            )
            continue
        has_records = True
        yield Record(dict(zip(columns, [*row, *[""] * (len(columns) - len(row))], strict=True)), str(path), number)
    check_found(has_records, path, bool(header), notes)


def filled_rows(path: Path, notes: Notes) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of each row that is not empty, and its cells up to the last that is not empty."""
    with zipfile.ZipFile(path) as archive:
        if sum(member.file_size for member in archive.infolist()) > largest_unpacked_size(path.stat().st_size):
            raise unpacked_size_error(path)
    openpyxl = load_openpyxl()
    try:
        with open_file(path) as file:  # openpyxl checks the extension of a path, but not of an open file
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
    """Convert a cell to text. A whole number is written without a decimal point."""
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
            "workbooks are read with openpyxl, which is not installed; run `pip install 'clew[tables]'`, or save the"
            " sheet as CSV"
        ) from None


WORKBOOK = Format(
    about="an Excel workbook", rows=text_table_rows(read_workbook), kinds=("xlsx",), records=read_workbook
)
