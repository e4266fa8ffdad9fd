"""Batches for any number of loader workers and processes: the same rows in the same order, from any position on.

The rows that the training loop passes to the task are compared. Every process records the rows of its shares; together
they must be the rows of a single process without workers.
"""

import hashlib
import os
import random
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from benchmarks.faults.children import run_child, temporary_folder
from benchmarks.faults.groups import run_group
from benchmarks.faults.subjects import TEXT
from benchmarks.faults.trials import Fault, Result, in_this_process, run_trials
from clew.core.types import State, Term
from clew.data.caching.encoded import TokenFile, encode_corpus
from clew.data.files.text_files import find_text
from clew.data.plans import TokenBatch
from clew.recipes.resolving import config_of
from clew.tasks.learnings.streams import text_batches
from clew.text.train import train_character
from clew.training.backward import StepOptions
from clew.training.loader import Loader
from clew.training.loop import train
from clew.training.optimisers import sgd
from clew.training.records import Progress
from clew.training.schedules import Constant

STEPS = 12


class Case(NamedTuple):
    """How a text is batched, the first batch, and the number of workers and processes."""

    batching: str
    batch_size: int
    length: int
    seed: int
    epoch: int
    batch: int
    accumulate: int
    workers: int
    processes: int


def run(count: int, seed: int) -> Result:
    with temporary_folder("orders") as workspace:
        text = encode(workspace)
        cases = iter([draw_case(seed, number) for number in range(count)])
        fault = Fault(
            "orders", lambda _: next(cases), lambda case: attempt(case, text, workspace), str, smaller, seconds=100.0
        )
        return run_trials(fault, count, seed, in_this_process)


def encode(workspace: Path) -> TokenFile:
    path = workspace / "story.txt"
    path.write_text(TEXT, encoding="utf-8")
    source = find_text(str(path))
    return encode_corpus(source, train_character(source), workspace / "cache")


def draw_case(seed: int, number: int) -> Case:
    """Take workers and processes in turn, draw the rest. There may be fewer rows than processes or micro-batches."""
    rng = random.Random(f"orders {seed} {number}")
    batching = ("streams", "windows")[number % 2]
    workers, processes = [(w, p) for p in (1, 2) for w in (0, 1, 2, 4)][number // 2 % 8]
    sizes = rng.randint(1, 9), rng.randint(3, 20)
    position = rng.randint(0, 2), rng.randint(0, 5)
    return Case(batching, *sizes, rng.randint(0, 9), *position, rng.randint(1, 3), workers, processes)


def smaller(case: Case) -> list[Case]:
    simpler = [case._replace(workers=min(case.workers, 1)), case._replace(processes=1), case._replace(accumulate=1)]
    return [candidate for candidate in simpler if candidate != case]


class Reader(nn.Module):
    """A task that learns nothing and records the hash of every row that it receives, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))
        self.row_hashes: list[str] = []

    def forward(self, batch: TokenBatch, state: State = None) -> tuple[dict[str, Term], State]:
        self.row_hashes += hash_rows(batch)
        return {"loss": Term(self.weight * len(batch.tokens), self.counts(batch)["loss"])}, None

    def counts(self, batch: TokenBatch) -> dict[str, Tensor]:
        return {"loss": torch.tensor(len(batch.tokens))}


def hash_rows(batch: TokenBatch) -> list[str]:
    return [
        hashlib.sha256(repr((tokens.tolist(), targets.tolist(), batch.fresh)).encode()).hexdigest()[:16]
        for tokens, targets in zip(batch.tokens, batch.targets, strict=True)
    ]


def attempt(case: Case, text: TokenFile, workspace: Path) -> str:
    settings = [f"training.{name}={getattr(case, name)}" for name in ("batching", "batch_size", "length")]
    batches = text_batches(text, config_of("text-lstm", settings).training, case.seed)
    alone = batches.ahead(case.epoch, case.batch)
    expected = [hash_rows(next(alone)[2]) for _ in range(STEPS)]

    def read(rank: int) -> None:
        reader = Reader()
        loader = Loader(batches, case.workers, pin=False)
        progress = Progress(epoch=case.epoch, batch=case.batch)
        steps = train(
            reader,
            loader,
            sgd(reader.parameters(), 0.0),
            Constant(STEPS),
            StepOptions(seed=0, accumulate=case.accumulate),
            steps=STEPS,
            progress=progress,
        )
        lines = []
        for _ in steps:
            lines.append(" ".join(reader.row_hashes))
            reader.row_hashes = []
        (workspace / f"rows-{rank}").write_text("\n".join(lines) + "\n")

    if case.processes == 1:
        process = run_child(lambda: read(0), workspace)
        assert process.status == 0, process.last_line
    else:
        run_group(read, case.processes, workspace)
    shares: list[Any] = [(workspace / f"rows-{rank}").read_text().split("\n")[:STEPS] for rank in range(case.processes)]
    for step, parts in enumerate(zip(*shares, strict=True)):
        merged = merge_shares([part.split() for part in parts], expected[step])
        assert merged == expected[step], f"step {step} has other rows"
    for rank in range(case.processes):
        os.unlink(workspace / f"rows-{rank}")
    return f"{case.batching}: the same rows in the same order"


def merge_shares(shares: list[list[str]], expected: list[str]) -> list[str]:
    """Merge the rows of all shares, without the filler rows that have no weight.

    A micro-batch without rows reads the first row of its share again; a process without rows reads the first row of the
    batch.
    """
    merged: list[str] = []
    for share in shares:
        for row in share:
            if len(merged) < len(expected) and row == expected[len(merged)]:
                merged.append(row)
            else:
                assert row in (expected[0], share[0]), "a row of another batch"
    return merged
