"""Convert the arguments of `clew.train`, settings and data from Python, to those of a recipe's run."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from clew.core.errors import UserError, shortened
from clew.recipes.grid import expand
from clew.recipes.listed import Listed, listed_settings
from clew.recipes.running import run_recipe
from clew.runs.folder.run_files import is_run
from clew.runs.loaded import Run
from clew.runs.settings.keywords import settings_of
from clew.training.callbacks import Callback
from clew.training.report import Report, Silence
from clew.training.signals import Interrupted

ARGUMENTS = ("data", "out", "resume", "overwrite", "code", "quiet", "callbacks")
"""Arguments of `clew.train` that are not settings."""


def run_with(
    recipe: str,
    assignments: Sequence[str],
    keywords: Mapping[str, Any],
    data: Listed | None = None,
    *,
    out: Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    code: Path | None = None,
    report: Report | None = None,
    callbacks: Sequence[Callback] = (),
) -> Run:
    """Train a recipe with settings in Python's notation. If a run with the same settings exists, train another one in a
    new folder."""
    check_one(recipe, assignments)
    settings = settings_of(assignments, keywords, ARGUMENTS)
    if data is not None:
        settings += listed_settings(recipe, settings, data, (report or Silence()).say)
    try:
        return run_recipe(
            recipe,
            settings,
            out=out,
            resume=resume,
            overwrite=overwrite,
            again=True,
            code=code,
            report=report,
            callbacks=callbacks,
        ).run
    except Interrupted as stop:
        resume_by = (
            f"; to resume, repeat the call with out={str(stop.folder)!r} and resume=True" if is_run(stop.folder) else ""
        )
        raise Interrupted(stop.number, f"{stop}{resume_by}", stop.folder) from None


def check_one(recipe: str, assignments: Sequence[str]) -> None:
    """Refuse values that the command line would read as a grid of several runs."""
    words = [word for word in (recipe, *assignments) if isinstance(word, str) and "," in word]
    if not words or len(runs := expand(recipe, [word for word in assignments if isinstance(word, str)])) == 1:
        return
    first = shortened(f"clew.train({', '.join(map(repr, (runs[0].recipe, *runs[0].assignments)))})")
    raise UserError(
        f"{words[0]!r} has several values, a grid of {len(runs)} runs, but a call trains one; call train once for each"
        f" value, starting with {first}, or put a value that contains commas into double quotes"
    )
