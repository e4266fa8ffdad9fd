"""The summary of a run directory with its full config. Reads the config and the metrics, but no weights."""

from pathlib import Path

from clew.core.errors import UserError
from clew.runs.directory import read_config
from clew.runs.folder.records import Summary, read_records
from clew.runs.folder.run_files import CONFIG, is_run


def summarise(folder: Path) -> Summary:
    """Return the summary of a run directory; raise UserError if it cannot be read."""
    if not is_run(folder):
        raise UserError(f"{folder} has no {CONFIG}; it was copied incompletely, or is not a run directory")
    return Summary(folder, read_config(folder), read_records(folder))
