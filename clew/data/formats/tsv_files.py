"""Tab-separated values, with or without a header: one record per line and a tab between fields.

Quotes have no special meaning. A file with quoted fields, as spreadsheets write them, must be read as CSV
(data.format=csv).
"""

from collections.abc import Collection, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

from clew.data.format import Format, text_table_rows
from clew.data.lines import read_lines
from clew.data.notes import Notes
from clew.data.records import Column, Record, as_number, check_found, header_columns

USUAL = {
    *(
        "category",
        "class",
        "gold",
        "intent",
        "label",
        "labels",
        "output",
        "score",
        "sentiment",
        "summary",
        "tag",
        "tags",
        "target",
        "tgt",
    ),
    *(
        "document",
        "id",
        "idx",
        "index",
        "input",
        "question",
        "review",
        "sentence",
        "sentence1",
        "sentence2",
        "source",
        "src",
        "text",
    ),
    *("text1", "text2", "title", "token", "tokens", "tree", "word", "words"),
    *("caption", "captions", "file_name", "filename", "image", "picture"),
}
"""Usual names of columns."""

LOOKED_AT = 20
"""Number of lines from which a header is detected."""


def read_tsv(
    path: Path, *, header: bool | None = None, wanted: Collection[Column] = (), notes: Notes | None = None
) -> Iterator[Record]:
    """Yield the records. If `header` is None, the first line is a header if a column is `wanted` by name, or if it
    looks like one (`looks_like_header`)."""
    notes = Notes() if notes is None else notes
    name = str(path)
    lines = filled_lines(path, notes)
    start = list(islice(lines, LOOKED_AT))
    rows = [line.split("\t") for _, line in start]
    if header is None and rows:
        header = any(as_number(column) is None for column in wanted) or looks_like_header(rows)
    if rows and header:
        columns = header_columns(rows[0], f"{path}:{start.pop(0)[0]}")
    else:
        columns = [str(number) for number in range(1, len(rows[0]) + 1)] if rows else []
    width, has_records = len(columns), False
    for number, line in chain(start, lines):
        values = line.split("\t")
        if len(values) == width:
            has_records = True
            yield Record(dict(zip(columns, values, strict=True)), name, number)
        else:
            notes.fault(
                "wrong number of fields",
                f"{name}:{number}",
                f"expected {width} tab-separated columns, found {len(values)}",
            )
    check_found(has_records, path, bool(header), notes)


def filled_lines(path: Path, notes: Notes) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not empty, with their numbers. A line of tabs only is a record of empty fields."""
    for number, line in enumerate(read_lines(path), start=1):
        if "\t" in line or line.strip():
            yield number, line
        else:
            notes.skip("empty line", f"{path}:{number}")


def looks_like_header(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row is a header: no field is empty, a number or repeated, and one is a usual column name
    (`USUAL`) or stands above a column of numbers."""
    names = [field.strip().lower() for field in rows[0]]
    if len(set(names)) < len(names) or any(is_value(name) for name in names):
        return False
    if not USUAL.isdisjoint(names):
        return True
    below = [row for row in rows[1:] if len(row) == len(names)]
    return any(all(map(is_numeric, column)) for column in zip(*below, strict=True))


def is_value(name: str) -> bool:
    """Whether a field cannot be the name of a column."""
    return not name or len(name) > 40 or is_numeric(name)


def is_numeric(field: str) -> bool:
    return field.strip().removeprefix("-").replace(".", "", 1).isdigit()


def is_tsv(lines: Sequence[str]) -> bool:
    """Whether most lines have as many tabs as the first."""
    counts = [line.count("\t") for line in lines if line.strip()]
    return bool(counts) and counts[0] > 0 and 2 * counts.count(counts[0]) > len(counts)


TSV = Format(
    about="tab-separated values",
    rows=text_table_rows(read_tsv),
    extensions=(".tsv", ".tab"),
    fits=is_tsv,
    records=read_tsv,
)
