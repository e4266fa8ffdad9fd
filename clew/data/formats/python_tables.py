"""Tables in memory: DataFrames of pandas and polars, pyarrow tables, Datasets, structured NumPy arrays, dicts of
columns, and lists of dicts. They are recognised by their methods, so no library is imported. Rows contain only values
of JSON."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

import numpy as np

from clew.core.errors import UserError, shown
from clew.data.formats.table_files import converter, json_cell

Rows = Iterator[dict[str, Any]]


def rows_in_memory(data: Any) -> Rows | None:
    """Yield the rows of a table as dicts by column. Return None if the data are not a table."""
    if isinstance(data, np.ndarray):
        return (
            None
            if data.dtype.names is None
            else (dict(zip(data.dtype.names, row.tolist(), strict=True)) for row in data)
        )
    if hasattr(data, "features") and hasattr(data, "column_names"):
        return dataset_rows(data)
    if hasattr(data, "iter_rows"):  # polars
        return (json_row(row) for row in data.iter_rows(named=True))
    if hasattr(data, "itertuples"):  # pandas
        names = [str(name) for name in data.columns]
        if repeated := [name for name in names if names.count(name) > 1]:
            raise UserError(f"the table has several columns {shown(repeated[0])}; rename them or drop all but one")
        return (json_row(dict(zip(names, row, strict=True))) for row in data.itertuples(index=False, name=None))
    if hasattr(data, "to_batches"):  # pyarrow
        return (json_row(row) for batch in data.to_batches() for row in batch.to_pylist())
    return column_rows(data) if isinstance(data, Mapping) else None


def dataset_rows(data: Any) -> Rows:
    """Yield the rows of a Dataset, with class numbers converted to class names."""
    features = {} if data.features is None else data.features.to_dict()
    for row in data:
        yield json_row({name: converter(features.get(name))(value) for name, value in row.items()})


def column_rows(data: Mapping[str, Any]) -> Rows:
    """Yield the rows of a dict of columns."""
    columns = {str(name): list(column) for name, column in data.items()}
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise UserError(
            f"the columns of the table have different lengths: {counts}; give each column one value per example"
        )
    return (json_row(dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True))


def rows_of_dicts(examples: Iterable[Any]) -> tuple[Rows | None, Iterable[Any]]:
    """Return (rows, ()) for an iterable of dicts, and (None, the same items) for any other."""
    items = iter(examples)
    firsts = list(islice(items, 1))
    examples = chain(firsts, items)
    if firsts and isinstance(firsts[0], Mapping):
        return (json_row(check_row(row, number)) for number, row in enumerate(examples, start=1)), ()
    return None, examples


def check_row(row: Any, number: int) -> Mapping[str, Any]:
    if not isinstance(row, Mapping):
        raise UserError(
            f"example 1 of data= is a dict, but example {number} is {shown(row)}; pass a dict for each example"
        )
    return row


def json_row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {str(name): json_value(value) for name, value in row.items()}


def json_value(value: Any) -> Any:
    """Convert a value to one of JSON. Missing values, such as NaN and NA, become None."""
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, (np.generic, np.ndarray)):
        if (name := value.dtype.str).endswith("[ns]"):  # `tolist` would convert such dates to numbers
            value = value.astype(name.replace("[ns]", "[us]"))
        value = value.tolist()
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    if isinstance(value, (list, tuple)):
        return [json_value(item) for item in value]
    if isinstance(value, Mapping):
        return {str(name): json_value(item) for name, item in value.items()}
    return json_cell(value)
