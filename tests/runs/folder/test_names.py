from pathlib import Path

from clew.runs.folder.names import run_names
from clew.runs.loaded import Run
from tests.instruments.small_runs import small_run


def named(*folders: str) -> list[str]:
    small = small_run("lstm")
    return run_names([Run(Path(folder), small.config, small.vocabularies, small.task) for folder in folders])


def test_runs_are_called_by_as_much_of_their_folders_as_tells_them_apart() -> None:
    assert named("runs/a", "runs/b/") == ["a", "b"]
    assert named("x/a", "y/a", "b") == ["x/a", "y/a", "b"]
    assert named("x/a", "x/a") == ["1: x/a", "2: x/a"]
