"""Options of an export, whatever the format."""

from typing import NamedTuple


class ExportOptions(NamedTuple):
    """`license` is the model's licence as the card names it; `command` is the command that trained the run."""

    license: str | None = None
    command: str | None = None
