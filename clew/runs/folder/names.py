"""Distinct names for several runs."""

from collections.abc import Sequence

from clew.runs.loaded import Run


def run_names(runs: Sequence[Run]) -> list[str]:
    """Return a name for each run: its folder's last part, the whole path if that is ambiguous, and a number before it
    if the same run is given twice."""
    short_names = [run.folder.resolve().name for run in runs]
    names = [
        name if short_names.count(name) == 1 else str(run.folder) for name, run in zip(short_names, runs, strict=True)
    ]
    return [name if names.count(name) == 1 else f"{number}: {name}" for number, name in enumerate(names, start=1)]
