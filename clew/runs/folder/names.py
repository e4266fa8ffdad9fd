"""What runs are called beside each other."""

from collections.abc import Sequence

from clew.runs.loaded import Run


def run_names(runs: Sequence[Run]) -> list[str]:
    """The last part of each folder's name; the whole where that is another's too, and numbered where one run stands
    there twice."""
    last = [run.folder.resolve().name for run in runs]
    names = [name if last.count(name) == 1 else str(run.folder) for name, run in zip(last, runs, strict=True)]
    return [name if names.count(name) == 1 else f"{number}: {name}" for number, name in enumerate(names, start=1)]
