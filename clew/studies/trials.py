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
from clew.runs.directory import append_metrics, is_run, read_config
from clew.runs.folder.lock import is_locked
from clew.runs.folder.summary import summarise
from clew.training.checkpoints import DiskError
from clew.training.records import Record
from clew.training.report import Report
from clew.training.signals import Interrupted

WAIT = 60.0
"""Seconds that a trial's folder may stay locked by a process that was told to stop and still saves."""
FINISHED, PRUNED, FAILED = "finished", "pruned", "failed"


@dataclass(frozen=True)
class Order:
    """A trial to train: its recipe, all its settings and its folder."""

    number: int
    recipe: str
    assignments: tuple[str, ...]
    folder: Path
    code: Path | None = None


@dataclass(frozen=True)
class Evaluated:
    """An evaluation: the value that is to become small, and the measure by which people know it."""

    step: int
    value: float
    measure: str
    score: float


@dataclass(frozen=True)
class Outcome:
    """How a trial ended. Its `value` is to become small; `score` is the same as its measure has it."""

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
"""Whether a trial is to end after an evaluation."""


class Pruned(Exception):
    """A trial that is not worth more steps."""

    def __init__(self, last: Evaluated):
        super().__init__(f"pruned at step {last.step}")
        self.last = last


class Watched:
    """A report that forwards everything, and ends the run when `decide` says so after an evaluation, unless it is the
    last one."""

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
    """The measure that chooses a run's best evaluation, and its value in a score."""
    name = summarise(folder).measure
    if name not in score.measures:
        name = min(score.measures, key=lambda each: abs(abs(score.measures[each]) - abs(score.value)))
    return name, score.measures[name]


def train_trial(order: Order, decide: Decide, report: Report, *, debug: bool = False) -> Outcome:
    """Trains a trial, or resumes it from its newest checkpoint. What is wrong with the trial alone is its outcome;
    signals and disks that refuse are raised."""
    folder = order.folder
    wait_for(folder)
    try:
        result = run_recipe(
            order.recipe,
            order.assignments,
            out=folder,
            resume=is_run(folder),
            code=order.code,
            report=Watched(report, decide, folder),
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
    """An outcome with how far the run came."""
    if not is_run(folder):
        return Outcome(state, value, measure, score, reason=reason)
    run = summarise(folder)
    return Outcome(state, value, measure, score, run.step, run.config.training.steps, run.seconds, reason)


def wait_for(folder: Path) -> None:
    """Until a process that was told to stop has saved the trial."""
    last = time.monotonic() + WAIT
    while is_locked(folder) and time.monotonic() < last:
        time.sleep(0.1)
