"""Records with named columns, whatever file they stand in; and how a column is found by name or by number."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from clew.core.errors import UserError, did_you_mean
from clew.data.notes import Notes


class Record(NamedTuple):
    """One record: its fields by column, and where it begins. Columns without names are numbered from 1."""

    values: Mapping[str, Any]
    path: str
    line: int

    @property
    def place(self) -> str:
        return f"{self.path}:{self.line}"


Column = str | int
"""A column by its name, or by its number from 1."""


def find_column(columns: Sequence[str], wanted: Column, role: str, path: str) -> str:
    """The name of the column that is wanted, or a sentence with those that there are."""
    if str(wanted) in columns:
        return str(wanted)
    number = as_number(wanted)
    if number is not None and 1 <= number <= len(columns):
        return columns[number - 1]
    if number is not None:
        rule = f"no column {number} for data.{role}; there are {len(columns)}, counted from 1"
    else:
        rule = f"no column '{wanted}' for data.{role}{did_you_mean(str(wanted), columns)} there are"
    raise UserError(f"{path}: {rule}: {listed(columns)}")


def find_role(columns: Sequence[str], wanted: Column | None, role: str, path: str, instead: str | None = None) -> str:
    """The column for a role: the one that is wanted; where none is, the one that is called like the role, or
    `instead`."""
    if wanted is not None:
        return find_column(columns, wanted, role, path)
    if role in columns:
        return role
    if instead is not None:
        return instead
    raise UserError(
        f"{path}: no column '{role}'; say which one it is with data.{role}=NAME; there are: {listed(columns)}"
    )


def as_number(column: Column) -> int | None:
    """A column's number; None for a name."""
    if isinstance(column, int):
        return column
    return int(column) if column.isascii() and column.removeprefix("-").isdigit() else None


def are_numbered(columns: Iterable[str]) -> bool:
    """Whether columns have no names of their own."""
    return all(column == str(number) for number, column in enumerate(columns, start=1))


def listed(columns: Sequence[str], few: int = 20) -> str:
    return ", ".join(columns[:few]) + (f" and {len(columns) - few} more" if len(columns) > few else "")


def header_columns(fields: Sequence[str], place: str) -> list[str]:
    """The columns' names; one without a name is called by its number."""
    columns = [field.strip() or str(number) for number, field in enumerate(fields, start=1)]
    twice = next((column for i, column in enumerate(columns) if column in columns[:i]), None)
    if twice is not None:
        raise UserError(
            f"{place}: the column '{twice}' is there twice; rename one, or set data.header=false if this line is no"
            " header"
        )
    return columns


def check_found(found: bool, path: Path | str, header: bool, notes: Notes) -> None:
    """A file without a single record is refused."""
    if found:
        return
    if notes.num_faults:
        raise UserError(f"{path}: no record can be read; the first fault is {notes.sentences[0]}")
    raise UserError(
        f"{path}: there is {'a header and no record below it' if header else 'no record in it'}; give a file with"
        " records in it"
    )
