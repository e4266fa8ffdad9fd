"""Train a recipe: what `clew train` and `clew.train` both do.

config = config_of(recipe, assignments)     resolve the recipe and its overrides    recipes/resolving.py
folder = open_new(...) or open_resumed(...)  choose the run's folder                 recipes/opening.py
train_run(config, folder, ...)               data, model, loop, result               training/run.py
    drive(trainer)                           steps, evaluations, checkpoints         training/driving.py
        train(task, batches, ...)            forward, backward, optimiser.step()     training/loop.py
"""

from collections.abc import Sequence
from pathlib import Path

from clew.core.processes import is_first, process_group
from clew.recipes.opening import open_new, open_resumed, resumes
from clew.recipes.resolving import config_of
from clew.training.callbacks import Callback
from clew.training.report import Report, Silence
from clew.training.run import Result, train_run


def run_recipe(
    recipe: str,
    assignments: Sequence[str] = (),
    *,
    out: Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    again: bool = False,
    code: Path | None = None,
    report: Report | None = None,
    callbacks: Sequence[Callback] = (),
) -> Result:
    """Train a recipe in a new folder, resume a run, or overwrite the run at `out`.

    Without `out`, settings that an earlier run has are refused, or with `again` trained in another new folder.
    """
    report = report if report is not None and is_first() else Silence()
    report.stage("reading the settings")
    config = config_of(recipe, assignments)
    with process_group(config.device):
        if resumes(config, out, resume, overwrite):
            folder, config = open_resumed(recipe, assignments, config, out, code)
        else:
            folder, report = open_new(config, out, overwrite=overwrite, again=again, code=code, report=report)
        return train_run(config, folder, report, callbacks)
