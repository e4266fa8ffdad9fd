"""Training for experiments, with the ordinary loop and recipes: a task in memory on random batches, or a recipe in a
run folder."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn

from clew.core.batches import Batches
from clew.metrics.score import Score
from clew.recipes.running import run_recipe
from clew.runs.build import build_task
from clew.runs.config import resolve
from clew.runs.folder.run_files import is_run
from clew.runs.folder.summary import summarise
from clew.runs.folder.vocabularies import TOKENIZER
from clew.runs.loaded import Run, load_run
from clew.text.train import TOKENIZERS
from clew.tour.experiment import Report
from clew.training.backward import StepOptions
from clew.training.loop import train
from clew.training.optimisers import OPTIMISERS
from clew.training.records import Progress, Record
from clew.training.schedules import Cosine

PATIENCE = 8.0
"""Seconds between two progress messages."""


def train_task(
    task: nn.Module,
    batch: Callable[[int], Any],
    *,
    steps: int,
    seed: int,
    learning_rate: float = 3e-3,
    clip_norm: float | None = 1.0,
    carry: bool = False,
    name: str = "",
    report: Report | None = None,
) -> list[float]:
    """Train on batch(0), batch(1), ... with AdamW and a cosine schedule, and return the loss of every step. Leaves the
    task in evaluation mode. The same seed and batches give the same weights."""
    progress_report = TrainingReport(name, report)
    losses = []
    batches = Batches(lambda epoch: steps, lambda epoch, number: batch(number))
    optimiser = OPTIMISERS["adamw"](task.parameters(), learning_rate)
    schedule = Cosine(steps, warmup=steps // 20, floor=0.02)
    for record in train(
        task,
        batches,
        optimiser,
        schedule,
        StepOptions(seed=seed, carry=carry, clip_norm=clip_norm),
        steps=steps,
        progress=Progress(),
    ):
        losses.append(record.loss)
        progress_report.step(record, steps, 0.0)
    task.eval()
    return losses


def language_run(
    symbols: str | Sequence[str], model: Mapping[str, Any], *, seed: int, task: Mapping[str, Any] | None = None
) -> Run:
    """Build an untrained language model without a folder, over characters if `symbols` is a text, otherwise over
    words."""
    kind = "character" if isinstance(symbols, str) else "word"
    settings = {"recipe": "tour", "seed": seed, "text": {"tokenizer": kind}, "model": dict(model), "device": "cpu"}
    settings["task"] = {"name": "language_model", **(task or {})}
    config = resolve(settings)
    vocabularies = {TOKENIZER: TOKENIZERS[kind]([symbols if isinstance(symbols, str) else " ".join(symbols)])}
    return Run(Path("tour"), config, vocabularies, build_task(config, vocabularies).eval())


def parameters_of(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def train_recipe(
    recipe: str, assignments: Sequence[str], *, name: str, report: Report, folder: Path | None = None
) -> tuple[Run, dict[str, float]]:
    """Train a recipe and return its run and scores (`valid.loss`, ...). In `folder` an interrupted run is resumed and a
    finished one loaded; without it, the run is temporary."""
    with run_folder(folder) as place:
        exists = is_run(place)
        if (
            exists
            and "valid.loss" in summarise(place).best
            and summarise(place).step >= summarise(place).config.training.steps
        ):
            return load_run(place), summarise(place).best
        run = run_recipe(recipe, assignments, out=place, resume=exists, report=TrainingReport(name, report)).run
        return run, summarise(place).best


@contextmanager
def run_folder(folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        yield folder
        return
    with TemporaryDirectory(prefix="clew-tour-") as place:
        yield Path(place) / "run"


class TrainingReport:
    """Report the progress of training under a name, with one line every few seconds."""

    def __init__(self, name: str, report: Report | None):
        self.name = name
        self.report = report
        self.last = time.monotonic()

    def say(self, text: str) -> None: ...

    def stage(self, text: str) -> None: ...

    def encoding(self, done: int, total: int) -> None: ...

    def step(self, record: Record, steps: int, tokens_per_second: float) -> None:
        if self.report is not None and time.monotonic() - self.last > PATIENCE:
            self.last = time.monotonic()
            self.report(f"{self.name}: step {record.step} of {steps}, loss {record.loss:.3f}")

    def evaluating(self, done: int, total: int) -> None: ...

    def evaluated(self, step: int, score: Score, is_best: bool) -> None:
        if self.report is not None:
            self.report(f"{self.name}: step {step}, validation: {score}")


def generator(*numbers: int) -> torch.Generator:
    """Return a random generator seeded by these numbers."""
    seed = 1
    for number in numbers:
        seed = (seed * 1_000_003 + number) % 2**63
    return torch.Generator().manual_seed(seed)
