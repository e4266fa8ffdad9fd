"""One trial: a run that reports each evaluation to a function, which decides whether training continues. Knows no
study."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from clew.core.errors import UserError
from clew.metrics.score import Score
from clew.recipes.running import run_recipe
from clew.runs.directory import append_metrics, read_config
from clew.runs.folder.lock import is_locked
from clew.runs.folder.run_files import is_run
from clew.runs.folder.summary import summarise
from clew.training.checkpoints import DiskError
from clew.training.records import Record
from clew.training.report import Report
from clew.training.signals import Interrupted

WAIT = 60.0
"""Seconds to wait for a trial's folder that is locked by a process that was told to stop and is still saving."""
FINISHED, PRUNED, FAILED = "finished", "pruned", "failed"


@dataclass(frozen=True)
class TrialSpec:
    """A trial to train: its recipe, all its settings and its folder."""

    number: int
    recipe: str
    assignments: tuple[str, ...]
    folder: Path
    code: Path | None = None


@dataclass(frozen=True)
class Evaluated:
    """An evaluation: `value` is minimised, and `score` is the value of the metric `measure`, for display."""

    step: int
    value: float
    measure: str
    score: float


@dataclass(frozen=True)
class Outcome:
    """The outcome of a trial. `value` is minimised, and `score` is the value of the metric `measure`, for display."""

    state: str
    value: float | None = None
    measure: str = ""
    score: float | None = None
    step: int = 0
    steps: int = 0
    seconds: float | None = None
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


Decide = Callable[[Evaluated], bool]
"""Returns whether a trial should end after an evaluation."""


class Pruned(Exception):
    """A trial was pruned."""

    def __init__(self, last: Evaluated):
        super().__init__(f"pruned at step {last.step}")
        self.last = last


class PruningReport:
    """A report that forwards everything, and raises `Pruned` after an evaluation if `decide` returns True, except after
    the last one."""

    def __init__(self, report: Report, decide: Decide, folder: Path):
        self.decide, self.folder, self.report = decide, folder, report
        self.say, self.stage, self.encoding, self.evaluating = (
            report.say,
            report.stage,
            report.encoding,
            report.evaluating,
        )

    def step(self, record: Record, steps: int, tokens_per_second: float) -> None:
        self.report.step(record, steps, tokens_per_second)

    def evaluated(self, step: int, score: Score, is_best: bool) -> None:
        self.report.evaluated(step, score, is_best)
        last = Evaluated(step, score.value, *named_value(score, self.folder))
        if self.decide(last) and step < read_config(self.folder).training.steps:
            raise Pruned(last)


def named_value(score: Score, folder: Path) -> tuple[str, float]:
    """Return the metric that selects a run's best checkpoint, and its value in a score."""
    name = summarise(folder).measure
    if name not in score.measures:
        name = min(score.measures, key=lambda each: abs(abs(score.measures[each]) - abs(score.value)))
    return name, score.measures[name]


def train_trial(spec: TrialSpec, decide: Decide, report: Report, *, debug: bool = False) -> Outcome:
    """Train a trial, or resume it from its newest checkpoint. An error of this trial alone becomes its outcome; signals
    and disk errors are raised."""
    folder = spec.folder
    wait_for(folder)
    try:
        result = run_recipe(
            spec.recipe,
            spec.assignments,
            out=folder,
            resume=is_run(folder),
            code=spec.code,
            report=PruningReport(report, decide, folder),
        )
    except Pruned as stop:
        append_metrics(
            folder, {"step": stop.last.step, "stopped": "worse than the median of earlier trials at this step"}
        )
        return outcome(folder, PRUNED, stop.last.value, stop.last.measure, stop.last.score)
    except (Interrupted, OSError, DiskError):
        raise
    except Exception as error:
        if debug and not isinstance(error, UserError):
            raise
        reason = " ".join(f"{'' if isinstance(error, UserError) else f'{type(error).__name__}: '}{error}".split())
        if is_run(folder):
            append_metrics(folder, {"step": summarise(folder).step, "failed": reason})
        return outcome(folder, FAILED, reason=reason)
    return outcome(folder, FINISHED, result.valid.value, *named_value(result.valid, folder))


def outcome(
    folder: Path,
    state: str,
    value: float | None = None,
    measure: str = "",
    score: float | None = None,
    reason: str = "",
) -> Outcome:
    """Build an outcome with the run's number of steps and its time."""
    if not is_run(folder):
        return Outcome(state, value, measure, score, reason=reason)
    run = summarise(folder)
    return Outcome(state, value, measure, score, run.step, run.config.training.steps, run.seconds, reason)


def wait_for(folder: Path) -> None:
    """Wait until a process that was told to stop has saved the trial."""
    deadline = time.monotonic() + WAIT
    while is_locked(folder) and time.monotonic() < deadline:
        time.sleep(0.1)
