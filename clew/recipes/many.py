"""Train the runs of a grid in order. Finished runs are skipped, interrupted ones are resumed, and a failed run does not
stop the others."""

import gc
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from clew.core.errors import UserError
from clew.core.processes import from_first, rank
from clew.core.wording import argument
from clew.recipes.grid import Combination, expand, split_values
from clew.recipes.opening import fixed_differences
from clew.recipes.resolving import config_of
from clew.recipes.running import run_recipe
from clew.runs.config import Config, TrainingConfig
from clew.runs.directory import append_metrics, check_code, config_there
from clew.runs.folder.lock import is_locked
from clew.runs.folder.records import is_finished
from clew.runs.folder.run_files import is_run
from clew.runs.folder.summary import summarise
from clew.training.report import Report
from clew.training.run import check_training
from clew.training.signals import Interrupted


@dataclass(frozen=True)
class Planned:
    """A combination, its config, and the folder that its run has or will have."""

    combination: Combination
    config: Config
    folder: Path


def plan_grid(
    recipe: str, assignments: Sequence[str], *, parent: Path = Path("runs"), code: Path | None = None
) -> list[Planned]:
    """Return every run of the grid, in order. A mistake in any of them is refused before the first starts."""
    if is_run(parent):
        raise UserError(
            f"{parent} is a run, so it cannot hold the runs of a grid; choose another folder with {argument('out')}"
        )
    if parent.exists() and not parent.is_dir():
        raise UserError(
            f"{parent} is not a folder, so it cannot hold the runs of a grid; choose one with {argument('out')}"
        )
    for assignment in assignments:
        field, _, text = assignment.partition("=")
        if len(split_values(text)) > 1 and Path(text).exists():
            raise UserError(
                f"commas separate the runs of a grid, and {text} is one file; write it as {field}='\"{text}\"'"
            )
    planned: list[Planned] = []
    for combination in expand(recipe, assignments):
        config = config_of(combination.recipe, combination.assignments)
        check_training(config.training)
        planned.append(
            Planned(combination, config, place(combination, config, parent, code, {other.folder for other in planned}))
        )
    return planned


def place(combination: Combination, config: Config, parent: Path, code: Path | None, taken: set[Path]) -> Path:
    """Return the folder of the combination's run: NAME, or NAME-2, ... if runs with other settings have the name."""
    number, folder = 1, parent / combination.name
    while folder in taken or (folder.exists() and not is_same_run(folder, config, code)):
        number += 1
        folder = parent / f"{combination.name}-{number}"
    return folder


def is_same_run(folder: Path, config: Config, code: Path | None) -> bool:
    """Whether a folder holds a run that this config can resume: no fixed setting differs, the run was not planned to be
    longer, and the user's file is the same."""
    existing = config_there(folder) if is_run(folder) else None
    if existing is None or fixed_differences(existing, config) or is_longer(existing.training, config.training):
        return False
    try:
        check_code(folder, code)
    except UserError:
        return False
    return True


def is_longer(existing: TrainingConfig, planned: TrainingConfig) -> bool:
    """Whether an existing run was planned to train longer. The number of steps in an epoch is known only after reading
    the data."""
    if planned.epochs is None:
        return existing.steps > planned.steps
    return existing.epochs is None or existing.epochs > planned.epochs


def is_done(planned: Planned) -> bool:
    if not is_run(planned.folder):
        return False
    run, training = summarise(planned.folder), planned.config.training
    if training.epochs is not None:
        if run.config.training.epochs != training.epochs:
            return False
        training = training.model_copy(update={"steps": run.config.training.steps})
    return is_finished(run.records, training)


def run_planned(planned: Planned, *, code: Path | None = None, report: Report | None = None) -> None:
    """Start or resume a run. An error is recorded in its metrics and raised."""
    folder, combination = planned.folder, planned.combination
    if from_first(lambda: str(is_locked(folder))) == "True":
        raise UserError(f"{folder} is being written by another process; wait for it, or stop it first")
    try:
        run_recipe(
            combination.recipe,
            combination.assignments,
            out=folder,
            resume=from_first(lambda: str(is_run(folder))) == "True",
            code=code,
            report=report,
        )
    except Interrupted:
        raise
    except Exception as error:
        if is_run(folder) and not is_locked(folder) and rank() == 0:
            append_metrics(folder, {"step": summarise(folder).step, "failed": " ".join(str(error).split())})
        raise
    finally:
        # Free what the next run may need: compiled code of this run's modules, and cycles that hold GPU memory.
        if planned.config.training.compile:
            torch.compiler.reset()
        gc.collect()
