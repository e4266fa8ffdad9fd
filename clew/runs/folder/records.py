"""Summarise a run from its metrics: its progress, scores and state. The config may be a full Config or the raw fields
of the file; this module does not load torch."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from glob import glob
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from clew.core.errors import UserError
from clew.core.numbers import is_number
from clew.core.wording import call
from clew.runs.folder.lock import is_locked
from clew.runs.folder.run_files import (
    ENVIRONMENT,
    FIT,
    IMPORTED,
    METRICS,
    VOCABULARY,
    check_run,
    is_own,
    is_run,
    read_metrics,
)

if TYPE_CHECKING:
    from clew.runs.config import Config, TrainingConfig

DEPTH = 2
"""How many levels of folders are searched for runs: runs/NAME and runs/STUDY/NAME."""

SCORES = ("micro_f1", "pearson", "f1", "accuracy")
"""The measures that `task.best=score` can mean: the first one that a run has measured."""


@dataclass(frozen=True)
class Summary:
    """A run's config and its records, in the order in which they were written."""

    folder: Path
    config: "Config"
    records: list[dict[str, Any]]

    @property
    def step(self) -> int:
        """Number of steps done."""
        return max((record["step"] for record in self.records), default=0)

    @cached_property
    def measure(self) -> str:
        """The measure that selects the run's best evaluation; `task.best=score` is resolved to an actual measure."""
        best: str = getattr(self.config.task, "best", "loss")
        if best == "score" and getattr(self.config.task, "positive", None) is not None:
            return "accuracy"  # F1 is measured too, but does not select
        measured = {name.rpartition(".")[2] for record in self.records for name in record}
        return best if best != "score" else next((name for name in SCORES if name in measured), best)

    @cached_property
    def best(self) -> dict[str, float]:
        """The scores of the run's weights by measure (`valid.loss`, `test.perplexity`): the final scores of a run that
        has ended, otherwise those of its best evaluation so far."""
        end = last_with(self.records, "best.step")
        if end is not None:
            scores = {
                name.removeprefix("best."): value
                for name, value in measured_numbers(end).items()
                if name.startswith("best.")
            }
            return {name: value for name, value in scores.items() if name != "step"}
        evaluations = [measured_numbers(record) for record in self.records if "valid.loss" in measured_numbers(record)]
        if not evaluations:
            return {}
        chosen = f"valid.{self.measure}"
        best = min(
            evaluations,
            key=lambda record: record["valid.loss"] if self.measure == "loss" else -record.get(chosen, -math.inf),
        )
        return {name: value for name, value in best.items() if name.startswith("valid.")}

    @property
    def averaged(self) -> list[dict[str, Any]]:
        """The checkpoints whose average this run is; empty for a trained run."""
        end = last_with(self.records, "averaged")
        return [] if end is None else list(end["averaged"])

    @property
    def failure(self) -> str | None:
        """Why the run failed, if its last record says so."""
        return str(self.records[-1]["failed"]) if self.records and "failed" in self.records[-1] else None

    @property
    def seconds(self) -> float | None:
        """Seconds of training so far, as last recorded. Older runs recorded them only at their end; before that they
        are computed from the logged speed. None without either."""
        recorded = [record["seconds"] for record in map(measured_numbers, self.records) if "seconds" in record]
        if recorded:
            return max(recorded)
        training, before, total = self.config.training, 0, 0.0
        for record in map(measured_numbers, self.records):
            if record.get("tokens_per_second", 0) > 0:
                total += (record["step"] - before) * training.batch_size * training.length / record["tokens_per_second"]
                before = int(record["step"])
        return total if before else None

    @property
    def state(self) -> str:
        """One of running, imported, averaged, finished, stopped (a pruned trial of a search), failed, interrupted."""
        if is_locked(self.folder):
            return "running"
        if self.config.recipe == IMPORTED:
            return IMPORTED
        if self.averaged:
            return "averaged"
        if is_finished(self.records, self.config.training):
            return "finished"
        if self.records and "stopped" in self.records[-1]:
            return "stopped"
        return "interrupted" if self.failure is None else "failed"

    @property
    def size(self) -> int:
        """Size on disk in bytes."""
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())


def is_fit(folder: Path) -> bool:
    """Whether a folder was written by `clew.fit`, which writes no config and no vocabulary."""
    return (
        not is_run(folder)
        and all((folder / name).is_file() for name in (METRICS, ENVIRONMENT))
        and not (folder / VOCABULARY).exists()
    )


def summarise_fit(folder: Path) -> Summary:
    """Return the summary of a folder of `clew.fit`. The number of steps is known if it has ended."""
    records = read_records(folder)
    end = last_with(records, "best.step")
    training = SimpleNamespace(steps=None if end is None else end["step"], patience=None)
    config: Any = SimpleNamespace(recipe=FIT, seed=None, task=None, training=training)
    return Summary(folder, config, records)


def is_finished(records: list[dict[str, Any]], training: "TrainingConfig") -> bool:
    """Whether a run has ended under these settings: its summary is written, and it reached the last step, ran out of
    patience or was stopped by a callback."""
    end = last_with(records, "best.step")
    if end is None:
        return False
    worse = sum("valid.loss" in record and record["step"] > end["best.step"] for record in records)
    return (
        "stopped_by" in end
        or end["step"] >= training.steps
        or (training.patience is not None and worse >= training.patience)
    )


def find_runs(folder: Path, depth: int = DEPTH) -> list[Path]:
    """Return the run directories below a folder, or the folder itself if it is one, in natural order (2 before 10).
    Damaged runs are included; checkpoints of other programs are not."""
    if is_own(folder) or (not is_run(folder) and ((folder / METRICS).is_file() or (folder / "checkpoints").is_dir())):
        return [folder]
    return [run for child in folders_in(folder) for run in find_runs(child, depth - 1)] if depth > 0 else []


def named_runs(words: Sequence[str]) -> list[Path]:
    """Return the run directories that words name, without duplicates. A word is a run, a folder with runs below it, or
    a pattern such as runs/ptb-*."""
    named: dict[Path, Path] = {}
    for word in words:
        folder, runs = Path(word), list[Path]()
        if folder.is_dir():
            runs = [folder] if is_run(folder) else find_runs(folder)
            if not runs:
                lists = call("clew.runs.folder.records.find_runs(DIR)", "clew runs DIR")
                raise UserError(f"there is no run below {folder}; {lists} lists the runs below a folder")
        elif any(character in word for character in "*?["):
            matches = sorted((Path(match) for match in glob(word)), key=lambda path: natural(str(path)))
            runs = [run for match in matches if match.is_dir() for run in find_runs(match)]
            if not runs:
                lists = call("clew.runs.folder.records.find_runs(Path('runs'))", "clew runs")
                raise UserError(f"no run matches {word}; {lists} lists the runs")
        else:
            check_run(folder)
        for run in runs:
            named.setdefault(run.resolve(), run)
    return list(named.values())


def folders_in(folder: Path) -> Iterator[Path]:
    children = (path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    yield from sorted(children, key=lambda path: natural(path.name))


def natural(name: str) -> list[tuple[int, int, str]]:
    """Return a sort key that orders `seed=2` before `seed=10`."""
    return [
        (0, int(part), "") if part.isdecimal() else (1, 0, part.lower()) for part in re.split(r"([0-9]+)", name) if part
    ]


def last_with(records: list[dict[str, Any]], key: str) -> dict[str, Any] | None:
    return next((record for record in reversed(records) if key in record), None)


def measured_numbers(record: dict[str, Any]) -> dict[str, float]:
    """Return the measured values of a record: its finite numbers."""
    return {name: value for name, value in record.items() if is_number(value)}


def read_records(folder: Path) -> list[dict[str, Any]]:
    """Return the records of a run that have a step, in the order in which they were written."""
    return [record for record in read_metrics(folder) if isinstance(record.get("step"), int)]
