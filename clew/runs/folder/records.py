"""What a run's records say of it: how far it came, what it scored, whether it goes on. Its config may be a whole one,
or its fields as they stand in the file; loads no torch."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew.core.errors import UserError
from clew.core.numbers import is_number
from clew.runs.folder.lock import is_locked
from clew.runs.folder.run_files import IMPORTED, METRICS, check_run, is_own, is_run, read_metrics

if TYPE_CHECKING:
    from clew.runs.config import Config, TrainingConfig

DEPTH = 2
"""How many folders below the one that is named runs are looked for: runs/NAME and runs/STUDY/NAME."""

SCORES = ("micro_f1", "pearson", "f1", "accuracy")
"""What `task.best=score` may stand for: the first that a run has measured."""


@dataclass(frozen=True)
class Summary:
    """One run: its config, and its records in the order in which they were written."""

    folder: Path
    config: "Config"
    records: list[dict[str, Any]]

    @property
    def step(self) -> int:
        """Steps done."""
        return max((record["step"] for record in self.records), default=0)

    @cached_property
    def measure(self) -> str:
        """What the run's best evaluation is chosen by; of a task that says `score`, the measure that this stands
        for."""
        best: str = getattr(self.config.task, "best", "loss")
        if best == "score" and getattr(self.config.task, "positive", None) is not None:
            return "accuracy"  # the F1 is measured besides
        there = {name.rpartition(".")[2] for record in self.records for name in record}
        return best if best != "score" else next((name for name in SCORES if name in there), best)

    @cached_property
    def best(self) -> dict[str, float]:
        """What the run's weights score, by measure (`valid.loss`, `test.perplexity`): of the whole run where it has
        ended, else of its best evaluation so far."""
        end = last_with(self.records, "best.step")
        if end is not None:
            scores = {
                name.removeprefix("best."): value for name, value in numbers(end).items() if name.startswith("best.")
            }
            return {name: value for name, value in scores.items() if name != "step"}
        evaluations = [numbers(record) for record in self.records if "valid.loss" in numbers(record)]
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
        """The weights that this run is the mean of; none where it was trained."""
        end = last_with(self.records, "averaged")
        return [] if end is None else list(end["averaged"])

    @property
    def failure(self) -> str | None:
        """Why the run ended, where its last record says that it failed."""
        return str(self.records[-1]["failed"]) if self.records and "failed" in self.records[-1] else None

    @property
    def seconds(self) -> float | None:
        """Seconds of training so far, as last recorded. Older runs record them at their end alone: before that they are
        computed from the logged speed. None without either."""
        said = [record["seconds"] for record in map(numbers, self.records) if "seconds" in record]
        if said:
            return max(said)
        training, before, total = self.config.training, 0, 0.0
        for record in map(numbers, self.records):
            if record.get("tokens_per_second", 0) > 0:
                total += (record["step"] - before) * training.batch_size * training.length / record["tokens_per_second"]
                before = int(record["step"])
        return total if before else None

    @property
    def state(self) -> str:
        """running, imported, averaged, finished, stopped (a pruned trial of a search), failed or interrupted."""
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
        """Bytes on disk."""
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())


def is_finished(records: list[dict[str, Any]], training: "TrainingConfig") -> bool:
    """Whether a run has ended by these settings: its summary is written, and it reached the last step, lost patience or
    was stopped by a callback."""
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
    """The run directories below a folder, or the folder itself where it is one; a damaged one is among them, but no
    checkpoint of another program's. 2 comes before 10."""
    if is_own(folder) or (not is_run(folder) and ((folder / METRICS).is_file() or (folder / "checkpoints").is_dir())):
        return [folder]
    return [run for child in folders_in(folder) for run in find_runs(child, depth - 1)] if depth > 0 else []


def named_runs(words: Sequence[str]) -> list[Path]:
    """The run directories that words name, each once: a run, a folder that runs are below, or a pattern such as
    runs/ptb-*."""
    found: dict[Path, Path] = {}
    for word in words:
        folder, runs = Path(word), list[Path]()
        if folder.is_dir():
            runs = [folder] if is_run(folder) else find_runs(folder)
            if not runs:
                raise UserError(f"there is no run below {folder}; `clew runs DIR` lists those below a folder")
        elif any(character in word for character in "*?["):
            matches = sorted((Path(match) for match in glob(word)), key=lambda path: natural(str(path)))
            runs = [run for match in matches if match.is_dir() for run in find_runs(match)]
            if not runs:
                raise UserError(f"no run matches {word}; `clew runs` lists the runs")
        else:
            check_run(folder)
        for run in runs:
            found.setdefault(run.resolve(), run)
    return list(found.values())


def folders_in(folder: Path) -> Iterator[Path]:
    children = (path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    yield from sorted(children, key=lambda path: natural(path.name))


def natural(name: str) -> list[tuple[int, int, str]]:
    """A key that sorts `seed=2` before `seed=10`."""
    return [
        (0, int(part), "") if part.isdecimal() else (1, 0, part.lower()) for part in re.split(r"([0-9]+)", name) if part
    ]


def last_with(records: list[dict[str, Any]], key: str) -> dict[str, Any] | None:
    return next((record for record in reversed(records) if key in record), None)


def numbers(record: dict[str, Any]) -> dict[str, float]:
    """What was measured in a record: finite numbers alone."""
    return {name: value for name, value in record.items() if is_number(value)}


def read_records(folder: Path) -> list[dict[str, Any]]:
    """The records of a run that are of a step, in the order in which they were written."""
    return [record for record in read_metrics(folder) if isinstance(record.get("step"), int)]
