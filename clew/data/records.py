"""Records with named columns, from a file of any format; and how a column is found by name or by number."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from clew.core.errors import UserError, did_you_mean
from clew.data.notes import Notes


class Record(NamedTuple):
    """One record: its fields by column, and where it begins. Unnamed columns are numbered from 1."""

    values: Mapping[str, Any]
    path: str
    line: int

    @property
    def place(self) -> str:
        return f"{self.path}:{self.line}"


Column = str | int
"""A column by its name, or by its number from 1."""


def find_column(columns: Sequence[str], column: Column, role: str, path: str) -> str:
    """Return the name of a column. If there is none, the error lists the columns."""
    if str(column) in columns:
        return str(column)
    number = as_number(column)
    if number is not None and 1 <= number <= len(columns):
        return columns[number - 1]
    if number is not None:
        rule = f"no column {number} for data.{role}; there are {len(columns)}, counted from 1"
    else:
        rule = f"no column '{column}' for data.{role}{did_you_mean(str(column), columns)} there are"
    raise UserError(f"{path}: {rule}: {listed(columns)}")


def find_role(columns: Sequence[str], column: Column | None, role: str, path: str, default: str | None = None) -> str:
    """Return the column for a role: `column` if it is set, else the one with the name of the role, else `default`."""
    if column is not None:
        return find_column(columns, column, role, path)
    if role in columns:
        return role
    if default is not None:
        return default
    raise UserError(f"{path}: no column '{role}'; name it with data.{role}=NAME; there are: {listed(columns)}")


def as_number(column: Column) -> int | None:
    """Return a column's number; None for a name."""
    if isinstance(column, int):
        return column
    return int(column) if column.isascii() and column.removeprefix("-").isdigit() else None


def are_numbered(columns: Iterable[str]) -> bool:
    """Whether columns are named only by their numbers."""
    return all(column == str(number) for number, column in enumerate(columns, start=1))


def listed(columns: Sequence[str], few: int = 20) -> str:
    return ", ".join(columns[:few]) + (f" and {len(columns) - few} more" if len(columns) > few else "")


def header_columns(fields: Sequence[str], place: str) -> list[str]:
    """Return the names of the columns; an unnamed column is called by its number."""
    columns = [field.strip() or str(number) for number, field in enumerate(fields, start=1)]
    duplicate = next((column for i, column in enumerate(columns) if column in columns[:i]), None)
    if duplicate is not None:
        raise UserError(
            f"{place}: there are two columns '{duplicate}'; rename one, or set data.header=false if this line is not a"
            " header"
        )
    return columns


def check_found(has_records: bool, path: Path | str, header: bool, notes: Notes) -> None:
    """Refuse a file without a single record."""
    if has_records:
        return
    if notes.num_faults:
        raise UserError(f"{path}: no record can be read; the first fault is {notes.sentences[0]}")
    raise UserError(
        f"{path}: there is {'a header and no record below it' if header else 'no record in it'}; give a file with"
        " records in it"
    )
