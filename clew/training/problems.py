"""What a config trains on, by the kind of data that its task learns from."""

from collections.abc import Callable
from pathlib import Path

from clew.runs.config import Config
from clew.tasks import TASKS
from clew.training.examples import example_problem
from clew.training.language import language_problem
from clew.training.masked import masked_problem
from clew.training.problem import Problem

PROBLEMS: dict[str, Callable[[Config, Path | None, Callable[[int, int], None]], Problem]] = {
    "text": language_problem,
    "documents": masked_problem,
    "pairs": example_problem,
    "trees": example_problem,
    "labelled_trees": example_problem,
    "tagged": example_problem,
    "labelled": example_problem,
    "questions": example_problem,
    "nothing": example_problem,
}
"""How a run's data are read, by the kind of data that its task learns from."""


def prepare_problem(config: Config, run: Path | None = None, progress: Callable[[int, int], None] = lambda done, total: None) -> Problem:
    """What a config trains on, with the vocabularies of a run that is there already, or new ones."""
    return PROBLEMS[TASKS[config.task.name].data](config, run, progress)
