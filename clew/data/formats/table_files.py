"""Typed tables: Parquet, Arrow and Feather files, folders of them, and datasets that `datasets` saved to disk. They are
read with pyarrow (`pip install 'clew[tables]'`). Rows are streamed in batches, and only the requested columns are read.

Class numbers, as `datasets` writes them, become class names. The index that pandas writes is left out.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from clew.core.errors import UserError, few_of
from clew.data.files.unpacking import RATIO, kind_at, largest_unpacked_size
from clew.data.format import Format
from clew.data.formats.json_files import list_rows
from clew.data.notes import Notes
from clew.data.records import Column, Record, check_found

ROWS = 1024
"""Number of rows read at a time."""
ENDINGS = (".parquet", ".arrow", ".feather")
"""File name endings that are read in a folder."""
FOLDER = "folder of tables"
INDEX = "__index_level_"
"""The prefix of pandas' index columns."""
Value = Callable[[Any], Any]


BUFFER = 2**20
"""Bytes of a Parquet column that are read at a time. By default pyarrow reads a whole row group, and pandas writes up
to a million rows as one. With this buffer, a group of 390 MB takes 90 MB of memory instead of 460."""


class Group(NamedTuple):
    """A row group of a Parquet file."""

    first_row: int
    num_rows: int
    size: int  # bytes of the requested column before compression


def read_table(
    path: Path, *, header: bool | None = None, wanted: Collection[Column] = (), notes: Notes | None = None
) -> Iterator[Record]:
    """Yield the rows, each with its number in its file. `wanted` names the columns to read; by default all are."""
    notes = Notes() if notes is None else notes
    has_rows = False
    for file in files_of(path):
        for record in file_rows(file, wanted):
            has_rows = True
            yield record
    check_found(has_rows, path, False, notes)


def file_rows(
    file: Path, wanted: Collection[Column] = (), groups: Sequence[int] | None = None, first_row: int = 0
) -> Iterator[Record]:
    """Yield the rows of one file, or of some row groups of a Parquet file, which begin after `first_row` rows."""
    number = first_row
    try:
        for batch in batches(file, [str(column) for column in wanted], groups):
            convert = converters(batch.schema)
            for row in batch.to_pylist():
                number += 1
                yield Record({name: convert[name](value) for name, value in row.items()}, str(file), number)
    except Unreadable as fault:
        after = f" after row {number:,}" if number else ""
        raise UserError(
            f"{file}: this table cannot be read{after} ({fault}); it is damaged, so copy it again"
        ) from None


def row_groups(path: Path, column: str) -> list[Group]:
    """Return the row groups of a Parquet file, with their sizes in one column."""
    with readable(path), arrow("pyarrow.parquet").ParquetFile(path) as file:
        check_size(path, file.metadata)
        groups, first_row = [], 0
        for index in range(file.metadata.num_row_groups):
            group = file.metadata.row_group(index)
            chunks = [group.column(number) for number in range(group.num_columns)]
            size = sum(chunk.total_uncompressed_size for chunk in chunks if chunk.path_in_schema == column)
            groups.append(Group(first_row, group.num_rows, size))
            first_row += group.num_rows
        return groups


def table_columns(path: Path) -> list[str]:
    """Return the names of the columns, with dotted names for nested fields. Columns of bytes are left out."""
    file = files_of(path)[0]
    with readable(file):
        schema = schema_of(file)
        return [name for field in schema for name in leaves(field) if not field.name.startswith(INDEX)]


def leaves(field: Any, prefix: str = "") -> list[str]:
    """Return the dotted names of a field's innermost fields that are not bytes."""
    types = arrow("pyarrow.types")
    name = f"{prefix}{field.name}"
    if types.is_struct(field.type):
        fields = (field.type.field(index) for index in range(field.type.num_fields))
        return [leaf for inner in fields for leaf in leaves(inner, f"{name}.")]
    has_bytes = any(test(field.type) for test in (types.is_binary, types.is_large_binary, types.is_fixed_size_binary))
    return [] if has_bytes else [name]


def files_of(path: Path) -> list[Path]:
    """Return the file, or the files of a folder in the order of their names. A folder saved by `datasets` lists its own
    files."""
    if not path.is_dir():
        return [path]
    if (path / "dataset_dict.json").is_file():
        parts = sorted(part.name for part in path.iterdir() if (part / "state.json").is_file())
        example = path / (parts[0] if parts and "train" not in parts else "train")
        raise UserError(
            f"{path}: this folder has the parts {few_of(parts)} of a dataset; give one, e.g. data.train={example}"
        )
    state = path / "state.json"
    if state.is_file():
        names = [
            Path(str(file.get("filename"))).name
            for file in json.loads(state.read_text(encoding="utf-8")).get("_data_files", [])
        ]
    else:
        names = sorted(
            file.name for file in path.iterdir() if file.suffix.lower() in ENDINGS and not file.name.startswith(".")
        )
    if not names:
        raise UserError(f"{path}: this folder has no tables; give one with .parquet or .arrow files")
    return [path / name for name in names]


def is_folder_of_tables(path: Path) -> bool:
    """Whether a path is a folder saved by `datasets`, or one with Parquet or Arrow files."""
    try:
        names = {entry.name for entry in path.iterdir()} if path.is_dir() else set()
    except OSError:
        return False
    return not names.isdisjoint(("dataset_dict.json", "state.json")) or any(
        name.lower().endswith(ENDINGS) for name in names
    )


def batches(path: Path, columns: Sequence[str], groups: Sequence[int] | None = None) -> Iterator[Any]:
    """Yield batches of rows with the given columns. Arrow batches are validated, since the offsets in an untrusted file
    may point anywhere."""
    with faults():
        kind = kind_at(path)
        if kind == "parquet":
            with arrow("pyarrow.parquet").ParquetFile(path, buffer_size=BUFFER, pre_buffer=False) as file:
                check_size(path, file.metadata)
                names = list(columns) or [name for name in file.schema_arrow.names if not name.startswith(INDEX)]
                yield from file.iter_batches(batch_size=ROWS, columns=names, row_groups=groups)
            return
        with arrow("pyarrow").memory_map(str(path)) as source:
            reader = open_arrow(source, kind)
            names = list(dict.fromkeys(top_name(name, reader.schema.names) for name in columns or reader.schema.names))
            for batch in reader if kind == "arrow stream" else map(reader.get_batch, range(reader.num_record_batches)):
                batch = batch.select([name for name in names if not name.startswith(INDEX)])
                batch.validate(full=True)
                for start in range(0, batch.num_rows, ROWS):
                    yield batch.slice(start, ROWS)


def top_name(name: str, names: Sequence[str]) -> str:
    """Return the column that contains a field with a dotted name."""
    return name if name in names else name.partition(".")[0]


def open_arrow(source: Any, kind: str | None) -> Any:
    ipc = arrow("pyarrow").ipc
    return ipc.open_stream(source) if kind == "arrow stream" else ipc.open_file(source)


def schema_of(path: Path) -> Any:
    kind = kind_at(path)
    if kind == "parquet":
        return arrow("pyarrow.parquet").read_schema(path)
    with arrow("pyarrow").memory_map(str(path)) as source:
        return open_arrow(source, kind).schema


def check_size(path: Path, metadata: Any) -> None:
    """Refuse a small file that claims to unpack to a huge one."""
    groups = (metadata.row_group(index) for index in range(metadata.num_row_groups))
    if max((group.total_byte_size for group in groups), default=0) > largest_unpacked_size(path.stat().st_size):
        raise UserError(
            f"{path}: a row group unpacks to more than {RATIO} times the size of the file, which no table of texts"
            " does; give another file"
        )


class Unreadable(Exception):
    """The first line of an error that pyarrow raised for a damaged file."""


@contextmanager
def faults() -> Iterator[None]:
    """Raise `Unreadable` for every error of pyarrow about a damaged file."""
    pyarrow = arrow("pyarrow")
    try:
        yield
    except UserError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError, KeyError) as error:
        raise Unreadable(str(error).strip().partition("\n")[0].rstrip(".")) from None


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Raise a UserError for a damaged file."""
    try:
        with faults():
            yield
    except Unreadable as fault:
        raise UserError(f"{path}: this table cannot be read ({fault}); it is damaged, so copy it again") from None


def converters(schema: Any) -> Mapping[str, Value]:
    """Return for each column a function that converts its values to those of JSON, and class numbers to class names."""
    features = (json.loads((schema.metadata or {}).get(b"huggingface", b"{}")).get("info") or {}).get("features") or {}
    return {name: converter(features.get(name)) for name in schema.names}


def converter(feature: Any) -> Value:
    """Return the function that converts values of a feature as `datasets` describes it."""
    if isinstance(feature, list) and feature:
        return converter({"feature": feature[0]})
    names = feature.get("names") if isinstance(feature, dict) else None
    if isinstance(names, list):
        return lambda value: names[value] if isinstance(value, int) and 0 <= value < len(names) else None
    if isinstance(feature, dict) and isinstance(feature.get("feature"), dict):
        inner = converter(feature["feature"])
        return lambda value: [inner(item) for item in value] if isinstance(value, list) else json_cell(value)
    return json_cell


def json_cell(value: Any) -> Any:
    """Convert a value to one of JSON: dates and decimal numbers become text, and bytes None."""
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, list):
        return [json_cell(item) for item in value]
    if isinstance(value, dict):
        return {name: json_cell(item) for name, item in value.items()}
    return None if isinstance(value, bytes) else str(value)


def arrow(module: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError:
        raise UserError(
            "Parquet, Arrow and Feather files are read with pyarrow, which is not installed; run `pip install"
            " 'clew[tables]'`, or give a CSV"
        ) from None


TABLE = Format(
    about="a table (Parquet, Arrow or Feather)",
    rows=list_rows(lambda path, **rest: read_table(path, **{**rest, "wanted": table_columns(path)})),
    kinds=("parquet", "arrow", "arrow stream", FOLDER),
    records=read_table,
    columns=table_columns,
    has_lists=True,
)
