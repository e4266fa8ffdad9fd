"""Batches by any number of loader workers and of processes: the same rows, in the same order, from any position on.

What is compared is what the loop hands to the task: every process writes down the rows of its shares, and put together
they are those that a process alone sees without a worker.
"""

import hashlib
import os
import random
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from benchmarks.faults.children import done, own_folder
from benchmarks.faults.groups import together
from benchmarks.faults.subjects import TEXT
from benchmarks.faults.trials import Fault, Result, in_this_process, put_through
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
    """How a text is read, from which batch on, and by whom."""

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
    with own_folder("orders") as place:
        text = encode(place)
        cases = iter([drawn(seed, number) for number in range(count)])
        fault = Fault(
            "orders", lambda _: next(cases), lambda case: attempt(case, text, place), str, smaller, seconds=100.0
        )
        return put_through(fault, count, seed, in_this_process)


def encode(place: Path) -> TokenFile:
    path = place / "story.txt"
    path.write_text(TEXT, encoding="utf-8")
    source = find_text(str(path))
    return encode_corpus(source, train_character(source), place / "cache")


def drawn(seed: int, number: int) -> Case:
    """Workers and processes in turn, the rest by chance; fewer rows than processes and micro-batches are drawn too."""
    chance = random.Random(f"orders {seed} {number}")
    batching = ("streams", "windows")[number % 2]
    workers, processes = [(w, p) for p in (1, 2) for w in (0, 1, 2, 4)][number // 2 % 8]
    sizes = chance.randint(1, 9), chance.randint(3, 20)
    position = chance.randint(0, 2), chance.randint(0, 5)
    return Case(batching, *sizes, chance.randint(0, 9), *position, chance.randint(1, 3), workers, processes)


def smaller(case: Case) -> list[Case]:
    simpler = [case._replace(workers=min(case.workers, 1)), case._replace(processes=1), case._replace(accumulate=1)]
    return [other for other in simpler if other != case]


class Reader(nn.Module):
    """A task that learns nothing and writes down every row it is given: a hash a row, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))
        self.seen: list[str] = []

    def forward(self, batch: TokenBatch, state: State = None) -> tuple[dict[str, Term], State]:
        self.seen += rows_of(batch)
        return {"loss": Term(self.weight * len(batch.tokens), self.counts(batch)["loss"])}, None

    def counts(self, batch: TokenBatch) -> dict[str, Tensor]:
        return {"loss": torch.tensor(len(batch.tokens))}


def rows_of(batch: TokenBatch) -> list[str]:
    return [
        hashlib.sha256(repr((tokens.tolist(), targets.tolist(), batch.fresh)).encode()).hexdigest()[:16]
        for tokens, targets in zip(batch.tokens, batch.targets, strict=True)
    ]


def attempt(case: Case, text: TokenFile, place: Path) -> str:
    settings = [f"training.{name}={getattr(case, name)}" for name in ("batching", "batch_size", "length")]
    batches = text_batches(text, config_of("text-lstm", settings).training, case.seed)
    alone = batches.ahead(case.epoch, case.batch)
    expected = [rows_of(next(alone)[2]) for _ in range(STEPS)]

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
            lines.append(" ".join(reader.seen))
            reader.seen = []
        (place / f"rows-{rank}").write_text("\n".join(lines) + "\n")

    if case.processes == 1:
        ended = done(lambda: read(0), place)
        assert ended.status == 0, ended.last
    else:
        together(read, case.processes, place)
    shares: list[Any] = [(place / f"rows-{rank}").read_text().split("\n")[:STEPS] for rank in range(case.processes)]
    for step, parts in enumerate(zip(*shares, strict=True)):
        found = put_together([part.split() for part in parts], expected[step])
        assert found == expected[step], f"step {step} has other rows"
    for rank in range(case.processes):
        os.unlink(place / f"rows-{rank}")
    return f"{case.batching}: the same rows in the same order"


def put_together(shares: list[list[str]], expected: list[str]) -> list[str]:
    """The rows of all shares, but for those that are read to keep step and count for nothing: the first row of its
    share by a micro-batch without rows, the first of the batch by a process without rows."""
    found: list[str] = []
    for share in shares:
        for row in share:
            if len(found) < len(expected) and row == expected[len(found)]:
                found.append(row)
            else:
                assert row in (expected[0], share[0]), "a row that is not the batch's"
    return found
