"""Tables that a program has in memory: DataFrames of pandas and polars, pyarrow's tables, Datasets, NumPy arrays, dicts
of columns, lists of dicts. They are recognised by their methods, so that no library is imported for them; rows are
values that JSON has."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import numpy as np

from clew.core.errors import UserError, shown
from clew.data.formats.table_files import converter, plain

Rows = Iterator[dict[str, Any]]


def rows_in_memory(data: Any) -> Rows | None:
    """The rows of a table by column; None where the data are no table."""
    if isinstance(data, np.ndarray):
        return (
            None
            if data.dtype.names is None
            else (dict(zip(data.dtype.names, row.tolist(), strict=True)) for row in data)
        )
    if hasattr(data, "features") and hasattr(data, "column_names"):
        return dataset_rows(data)
    if hasattr(data, "iter_rows"):  # polars
        return (valued(row) for row in data.iter_rows(named=True))
    if hasattr(data, "itertuples"):  # pandas
        names = [str(name) for name in data.columns]
        if repeated := [name for name in names if names.count(name) > 1]:
            raise UserError(f"data= has several columns {shown(repeated[0])}; rename them or drop all but one")
        return (valued(dict(zip(names, row, strict=True))) for row in data.itertuples(index=False, name=None))
    if hasattr(data, "to_batches"):  # pyarrow
        return (valued(row) for batch in data.to_batches() for row in batch.to_pylist())
    return column_rows(data) if isinstance(data, Mapping) else None


def dataset_rows(data: Any) -> Rows:
    """Of a Dataset: numbers of classes are their names."""
    features = {} if data.features is None else data.features.to_dict()
    for row in data:
        yield valued({name: converter(features.get(name))(value) for name, value in row.items()})


def column_rows(data: Mapping[str, Any]) -> Rows:
    """A dict of columns."""
    columns = {str(name): list(column) for name, column in data.items()}
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise UserError(
            f"the columns of data= are of different lengths: {counts}; a column has a value for each example"
        )
    return (valued(dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True))


def rows_of_dicts(examples: Iterable[Any]) -> tuple[Rows | None, Iterable[Any]]:
    """The rows of what yields dicts; else None, and all that it yields."""
    items = iter(examples)
    first = next(items, None)
    if isinstance(first, Mapping):
        return (valued(row) for row in chain([first], items)), ()
    return None, ([] if first is None else chain([first], items))


def valued(row: Mapping[str, Any]) -> dict[str, Any]:
    return {str(name): in_json(value) for name, value in row.items()}


def in_json(value: Any) -> Any:
    """A value as JSON has it; what is missing, as NaN and NA are, is null."""
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    if isinstance(value, (list, tuple)):
        return [in_json(each) for each in value]
    return {str(name): in_json(each) for name, each in value.items()} if isinstance(value, Mapping) else plain(value)
