"""Tables with types: Parquet, Arrow and Feather files, folders of them, and what `datasets` saves to disk. Rows are
streamed, a batch at a time, and only the columns that are asked for are read. pyarrow reads them (`pip install
'clew[tables]'`).

A number that stands for the name of a class, as `datasets` writes it, is that name; the index that pandas writes is
left out.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from clew.core.errors import UserError, few_of
from clew.data.files.unpacking import RATIO, kind_at, most_unpacked
from clew.data.format import Format
from clew.data.formats.json_files import list_rows
from clew.data.notes import Notes
from clew.data.records import Column, Record, check_found

ROWS = 1024
"""Rows that are read at a time."""
ENDINGS = (".parquet", ".arrow", ".feather")
"""How the names of files in a folder end."""
FOLDER = "folder of tables"
INDEX = "__index_level_"
"""How pandas calls the columns of its index."""
Value = Callable[[Any], Any]


BUFFER = 2**20
"""Bytes of a Parquet column that are fetched at a time. Left to itself pyarrow fetches a row group whole, and pandas
writes up to a million rows as one: a group of 390 MB is read in 90 MB of memory instead of 460."""


class Group(NamedTuple):
    """A row group of a Parquet file."""

    first_row: int
    num_rows: int
    size: int  # bytes of the columns that were asked for, before compression


def read_table(
    path: Path, *, header: bool | None = None, wanted: Collection[Column] = (), notes: Notes | None = None
) -> Iterator[Record]:
    """The rows, each placed by its number in its file. Of the columns those that are `wanted`, by name; all where none
    is."""
    notes = Notes() if notes is None else notes
    found = False
    for file in files_of(path):
        for record in file_rows(file, wanted):
            found = True
            yield record
    check_found(found, path, False, notes)


def file_rows(
    file: Path, wanted: Collection[Column] = (), groups: Sequence[int] | None = None, first_row: int = 0
) -> Iterator[Record]:
    """The rows of one file; of some row groups of a Parquet file, the first of which begins after `first_row` rows."""
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
    """The row groups of a Parquet file."""
    with readable(path), arrow("pyarrow.parquet").ParquetFile(path) as file:
        check_size(path, file.metadata)
        groups, first_row = [], 0
        for place in range(file.metadata.num_row_groups):
            group = file.metadata.row_group(place)
            chunks = [group.column(number) for number in range(group.num_columns)]
            size = sum(chunk.total_uncompressed_size for chunk in chunks if chunk.path_in_schema == column)
            groups.append(Group(first_row, group.num_rows, size))
            first_row += group.num_rows
        return groups


def table_columns(path: Path) -> list[str]:
    """The names of the columns, fields of fields with dots; bytes are none."""
    file = files_of(path)[0]
    with readable(file):
        schema = schema_of(file)
        return [name for field in schema for name in leaves(field) if not field.name.startswith(INDEX)]


def leaves(field: Any, prefix: str = "") -> list[str]:
    """The names of a field, or of the fields in it, that hold anything but bytes."""
    types = arrow("pyarrow.types")
    name = f"{prefix}{field.name}"
    if types.is_struct(field.type):
        inside = (field.type.field(place) for place in range(field.type.num_fields))
        return [leaf for inner in inside for leaf in leaves(inner, f"{name}.")]
    has_bytes = any(test(field.type) for test in (types.is_binary, types.is_large_binary, types.is_fixed_size_binary))
    return [] if has_bytes else [name]


def files_of(path: Path) -> list[Path]:
    """The file, or those of a folder in the order of their names; of a folder that `datasets` saved, those that it
    tells of."""
    if not path.is_dir():
        return [path]
    if (path / "dataset_dict.json").is_file():
        parts = sorted(part.name for part in path.iterdir() if (part / "state.json").is_file())
        example = path / (parts[0] if parts and "train" not in parts else "train")
        raise UserError(
            f"{path}: this folder holds the parts {few_of(parts)} of a dataset; name one, e.g. data.train={example}"
        )
    state = path / "state.json"
    if state.is_file():
        names = [
            Path(str(each.get("filename"))).name
            for each in json.loads(state.read_text(encoding="utf-8")).get("_data_files", [])
        ]
    else:
        names = sorted(
            file.name for file in path.iterdir() if file.suffix.lower() in ENDINGS and not file.name.startswith(".")
        )
    if not names:
        raise UserError(f"{path}: this folder of tables is empty; give one with .parquet or .arrow files in it")
    return [path / name for name in names]


def is_folder_of_tables(path: Path) -> bool:
    """A folder that `datasets` saved, or with Parquet or Arrow files in it."""
    try:
        names = {entry.name for entry in path.iterdir()} if path.is_dir() else set()
    except OSError:
        return False
    return not names.isdisjoint(("dataset_dict.json", "state.json")) or any(
        name.lower().endswith(ENDINGS) for name in names
    )


def batches(path: Path, columns: Sequence[str], groups: Sequence[int] | None = None) -> Iterator[Any]:
    """Batches of rows, of which only some columns are read; each is checked, since a file of a stranger's may point
    anywhere."""
    with faults():
        kind = kind_at(path)
        if kind == "parquet":
            with arrow("pyarrow.parquet").ParquetFile(path, buffer_size=BUFFER, pre_buffer=False) as file:
                check_size(path, file.metadata)
                kept = list(columns) or [name for name in file.schema_arrow.names if not name.startswith(INDEX)]
                yield from file.iter_batches(batch_size=ROWS, columns=kept, row_groups=groups)
            return
        with arrow("pyarrow").memory_map(str(path)) as source:
            reader = opened_arrow(source, kind)
            kept = list(dict.fromkeys(top_name(name, reader.schema.names) for name in columns or reader.schema.names))
            for batch in reader if kind == "arrow stream" else map(reader.get_batch, range(reader.num_record_batches)):
                batch = batch.select([name for name in kept if not name.startswith(INDEX)])
                batch.validate(full=True)
                for start in range(0, batch.num_rows, ROWS):
                    yield batch.slice(start, ROWS)


def top_name(name: str, names: Sequence[str]) -> str:
    """The column that a field of fields is in."""
    return name if name in names else name.partition(".")[0]


def opened_arrow(source: Any, kind: str | None) -> Any:
    ipc = arrow("pyarrow").ipc
    return ipc.open_stream(source) if kind == "arrow stream" else ipc.open_file(source)


def schema_of(path: Path) -> Any:
    kind = kind_at(path)
    if kind == "parquet":
        return arrow("pyarrow.parquet").read_schema(path)
    with arrow("pyarrow").memory_map(str(path)) as source:
        return opened_arrow(source, kind).schema


def check_size(path: Path, metadata: Any) -> None:
    """A small file that says it becomes a huge one is refused."""
    groups = (metadata.row_group(place) for place in range(metadata.num_row_groups))
    if max((group.total_byte_size for group in groups), default=0) > most_unpacked(path.stat().st_size):
        raise UserError(
            f"{path}: a row group in it is more than {RATIO} times as large as the file, as no table of texts is; give"
            " another"
        )


class Unreadable(Exception):
    """What pyarrow says of a damaged file."""


@contextmanager
def faults() -> Iterator[None]:
    """Whatever pyarrow raises for a damaged file is `Unreadable`, in one line."""
    pyarrow = arrow("pyarrow")
    try:
        yield
    except UserError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError, KeyError) as error:
        raise Unreadable(str(error).strip().partition("\n")[0].rstrip(".")) from None


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """A damaged file is one sentence."""
    try:
        with faults():
            yield
    except Unreadable as fault:
        raise UserError(f"{path}: this table cannot be read ({fault}); it is damaged, so copy it again") from None


def converters(schema: Any) -> Mapping[str, Value]:
    """What makes a text, a number or a list of each column's values; names of classes take the place of their
    numbers."""
    features = (json.loads((schema.metadata or {}).get(b"huggingface", b"{}")).get("info") or {}).get("features") or {}
    return {name: converter(features.get(name)) for name in schema.names}


def converter(feature: Any) -> Value:
    """Of a feature as `datasets` writes it."""
    if isinstance(feature, list) and feature:
        return converter({"feature": feature[0]})
    names = feature.get("names") if isinstance(feature, dict) else None
    if isinstance(names, list):
        return lambda value: names[value] if isinstance(value, int) and 0 <= value < len(names) else None
    if isinstance(feature, dict) and isinstance(feature.get("feature"), dict):
        inner = converter(feature["feature"])
        return lambda value: [inner(each) for each in value] if isinstance(value, list) else plain(value)
    return plain


def plain(value: Any) -> Any:
    """What JSON has; of dates and decimal numbers their text, and of bytes nothing."""
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    return None if isinstance(value, bytes) else str(value)


def arrow(module: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError:
        raise UserError(
            "Parquet, Arrow and Feather are read with pyarrow, which is not installed; `pip install 'clew[tables]'`, or"
            " give a CSV"
        ) from None


TABLE = Format(
    about="a table (Parquet, Arrow or Feather)",
    rows=list_rows(lambda path, **rest: read_table(path, **{**rest, "wanted": table_columns(path)})),
    kinds=("parquet", "arrow", "arrow stream", FOLDER),
    records=read_table,
    columns=table_columns,
    has_lists=True,
)
