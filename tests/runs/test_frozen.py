"""Run directories of every format there has been, trained once and never written again: they must load for ever."""

from pathlib import Path

import pytest

import clew
from clew.runs.upgrading import FORMAT

FROZEN = Path(__file__).parent / "frozen"
SENTENCE = "Whoever enters the maze ties a thread to its door, and the thread brings them home.\n"


@pytest.mark.parametrize("folder", sorted(FROZEN.iterdir()), ids=lambda folder: folder.name)
def test_a_frozen_run_recites_what_it_learnt(folder: Path) -> None:
    run = clew.load(folder, device="cpu")
    assert str(run.generate("Who", method="greedy", max_new=len(SENTENCE) - 3)) == SENTENCE
    assert str(run.generate("Who", method="beam", max_new=len(SENTENCE) - 3)) == SENTENCE
    assert run.score(SENTENCE).likelihood.loss < 0.5


def test_there_is_a_frozen_run_of_the_format_that_is_written() -> None:
    assert (FROZEN / f"format-{FORMAT}" / "config.json").is_file()
