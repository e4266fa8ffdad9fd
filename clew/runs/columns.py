"""Which columns of a table, or keys of a dict, are the fields of a use's rows: those that the run's config names, or
else those with the name of their role, as in training. Python and the command line both ask this module; it reads no
file."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from clew.core.config import Section
from clew.core.errors import STRICT, UserError, did_you_mean, shown
from clew.data.files.folders import ending
from clew.data.formats.python_tables import rows_in_memory
from clew.data.readers import OTHER_NAMES, column_for
from clew.data.records import Column, as_number, listed
from clew.data.values import Faulty, as_text

OTHER_ROLES = {"text": ("source", "words"), "picture": ("image",)}
"""What the section `data` calls a field of a row, if it has no setting of the field's own name."""


class FieldColumn(NamedTuple):
    """The column of a row's field: the field's role in the section `data`, and the column, if one is set."""

    field: str
    role: str
    column: Column | None
    is_required: bool

    @property
    def names(self) -> tuple[str, ...]:
        """The names that the column may have, if none is set."""
        return (self.role, *OTHER_NAMES.get(self.role, ()), self.field)

    def find(self, names: Sequence[str]) -> str | None:
        """Return the name of the column among these, None if it is not there."""
        if self.column is None:
            return column_for(names, self.role, self.names)
        number = as_number(self.column)
        if str(self.column) in names or number is None:
            return str(self.column) if str(self.column) in names else None
        return names[number - 1] if 1 <= number <= len(names) else None

    def __str__(self) -> str:
        return f"'{self.role}'" if self.column is None else f"'{self.column}' (the run's column of the {self.role})"


def field_columns(kind: type[Section], data: Any, chosen: Mapping[str, Column] | None = None) -> list[FieldColumn]:
    """Return the column of each field of a row that may be one, without optional fields that have no column. A chosen
    column overrides the config."""
    columns = []
    for number, (name, field) in enumerate(kind.model_fields.items()):
        if not (field.json_schema_extra or {}).get("column", True):  # type: ignore[union-attr]
            continue
        settings = type(data).model_fields if isinstance(data, Section) else {}
        role = next((role for role in (name, *OTHER_ROLES.get(name, ())) if role in settings), name)
        column = (chosen or {}).get(name) or (getattr(data, role, None) if names_columns(data, role) else None)
        if number == 0 or field.is_required() or column is not None:
            columns.append(FieldColumn(name, role, column, number == 0 or field.is_required()))
    return columns


def names_columns(data: Any, role: str) -> bool:
    """Whether the setting of a role names a column. The source of a corpus is a language, and that of parallel text the
    ending of a file name."""
    train = getattr(data, "train", None)
    return role != "source" or (
        isinstance(train, str) and data.format != "parallel" and ending(Path(train)) not in ("", f".{data.source}")
    )


def plain_rows(kind: type[Section], data: Any, rows: Any) -> Any:
    """Return the rows of a table in memory as dicts of the fields of `kind`; return anything else unchanged."""
    if isinstance(rows, Mapping) and not all(is_column(column) for column in rows.values()):
        return rows
    records = rows_in_memory(rows)
    if records is None:
        return rows
    return [
        {field: cell(kind, field, value, f"record {number}") for field, value in row.items()}
        for number, row in enumerate(projected(field_columns(kind, data), records), start=1)
    ]


def is_column(values: Any) -> bool:
    return isinstance(values, Iterable) and not isinstance(values, (str, bytes, Mapping))


def projected(columns: Sequence[FieldColumn], records: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the values of the fields of each record."""
    places: dict[str, str] = {}
    for record in records:
        places = places or find_columns(columns, list(record))
        yield {field: record[name] for field, name in places.items()}


def find_columns(columns: Sequence[FieldColumn], names: Sequence[str]) -> dict[str, str]:
    """Return the column of each field of a table in memory. The only column of a table is its text."""
    places = {each.field: each.find(names) for each in columns}
    missing = next((each for each in columns if each.is_required and places[each.field] is None), None)
    if missing is None:
        return {field: name for field, name in places.items() if name is not None}
    if len(names) == len(columns) == 1 and missing.column is None:
        return {missing.field: names[0]}
    raise UserError(
        f"the table has no column {missing}; its columns are {listed(names)}; rename one, or pass the column itself"
        " instead of the table"
    )


def cell(kind: type[Section], field: str, value: Any, place: str) -> Any:
    """Return a cell as the value of a field: a missing text is empty, and a number becomes its digits."""
    if value is None or isinstance(value, (str, list)):
        return "" if value is None else value
    try:
        return as_text({field: value}, field)
    except Faulty as fault:
        raise UserError(f"{place}: {str(fault).replace('data.', '', 1)}; fix it, or leave the record out") from None


def row_of_dict(kind: type[Section], data: Any, row: Mapping[str, Any], place: str) -> Mapping[str, Any]:
    """Return a dict with the fields of `kind`, given one with these fields or with the run's columns. Other keys are
    left out, unless one looks like a misspelt field."""
    columns = field_columns(kind, data)
    places = {each.field: name for each in columns if (name := each.find(list(row))) is not None}
    places = {name: name for name in kind.model_fields if name in row} | places
    missing = next((each for each in columns if each.is_required and each.field not in places), None)
    if missing is not None and kind.model_fields[missing.field].is_required():
        keys = " or ".join(dict.fromkeys((str(missing), f"'{missing.field}'")))
        raise UserError(
            f"{place}: no key {keys}; its keys are {shown(list(row))}; rename the key of the {missing.field}"
        )
    fields = {field: row[name] for field, name in places.items()}
    absent = [name for name in kind.model_fields if name not in places]
    misspelt = [name for name in row if name not in places.values() and did_you_mean(name, absent, STRICT) != ";"]
    return {**fields, **{name: row[name] for name in misspelt}}
