"""The summary of a run directory with its full config. Reads the config and the metrics, but no weights."""

from pathlib import Path

from clew.core.errors import UserError
from clew.runs.directory import CONFIG, is_run, read_config
from clew.runs.folder.records import (
    DEPTH as DEPTH,
)
from clew.runs.folder.records import (
    SCORES as SCORES,
)
from clew.runs.folder.records import (
    Summary as Summary,
)
from clew.runs.folder.records import (
    find_runs as find_runs,
)
from clew.runs.folder.records import (
    folders_in as folders_in,
)
from clew.runs.folder.records import (
    is_finished as is_finished,
)
from clew.runs.folder.records import (
    last_with as last_with,
)
from clew.runs.folder.records import (
    named_runs as named_runs,
)
from clew.runs.folder.records import (
    natural as natural,
)
from clew.runs.folder.records import (
    numbers as numbers,
)
from clew.runs.folder.records import (
    read_records as read_records,
)


def summarise(folder: Path) -> Summary:
    """Return the summary of a run directory; raise UserError if it cannot be read."""
    if not is_run(folder):
        raise UserError(f"{folder} has no {CONFIG}; it was copied incompletely, or is not a run directory")
    return Summary(folder, read_config(folder), read_records(folder))
