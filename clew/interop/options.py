"""Options of an export to any format."""

from typing import NamedTuple


class ExportOptions(NamedTuple):
    """`license` is the model's licence for the model card; `command` is the command that trained the run."""

    license: str | None = None
    command: str | None = None
