from pathlib import Path

from clew.runs.folder.names import run_names
from clew.runs.loaded import Run
from tests.instruments.small_runs import small_run


def names_of(*folders: str) -> list[str]:
    small = small_run("lstm")
    return run_names([Run(Path(folder), small.config, small.vocabularies, small.task) for folder in folders])


def test_runs_are_named_by_the_shortest_distinct_part_of_their_folders() -> None:
    assert names_of("runs/a", "runs/b/") == ["a", "b"]
    assert names_of("x/a", "y/a", "b") == ["x/a", "y/a", "b"]
    assert names_of("x/a", "x/a") == ["1: x/a", "2: x/a"]
