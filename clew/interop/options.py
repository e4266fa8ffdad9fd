"""What a person may say about an export, whatever the format."""

from typing import NamedTuple


class ExportOptions(NamedTuple):
    """`license` is the model's, as its card names it; `command` is what the run was trained by."""

    license: str | None = None
    command: str | None = None
