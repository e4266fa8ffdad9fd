"""Many small steps of a whole run, with evaluations, checkpoints and metrics: resident memory stays level, and so does
the number of open files. The number of trials is the number of steps."""

import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch

from benchmarks.faults.children import done, own_folder
from benchmarks.faults.subjects import text_beside
from benchmarks.faults.trials import FAILED, Failure, Result
from clew.recipes.running import run_recipe
from clew.training.report import Silence

SETTINGS = [
    "model.dim=8",
    "model.embedding_dim=4",
    "training.batch_size=2",
    "training.length=4",
    "training.average=ema",
    "training.log_every=10",
    "device=cpu",
]
PER_THOUSAND = 8.0
"""KB that a thousand steps may add."""
NOISE = 1536.0
"""KB that come and go, the allocator's: what a thousand steps add can be told from them over LONG steps."""
LONG = 20_000


class Meter(Silence):
    """Writes down memory and open files, at every hundredth of the way. Memory is what was asked for, in KB: not the
    pages of files, such as torch's own, that come in as they are used."""

    def __init__(self, path: Path, every: int):
        self.path = path
        self.every = every

    def step(self, record: Any, steps: int, tokens_per_second: float) -> None:
        if record.step % self.every == 0:
            with open("/proc/self/status") as file:
                resident = next(int(line.split()[1]) for line in file if line.startswith("RssAnon"))
            files = len(os.listdir("/proc/self/fd"))
            with self.path.open("a") as out:
                out.write(f"{record.step} {resident} {files}\n")


def run(count: int, seed: int) -> Result:
    began = time.perf_counter()
    with own_folder("memory") as place:
        every = max(count // 1000, 1) * 10
        text = text_beside(place / "run")
        rest = [
            f"training.steps={count}",
            f"training.evaluate_every={max(count // 10, 1)}",
            f"seed={seed}",
            f"data.train={text}",
        ]

        def train() -> None:
            os.environ["CLEW_CACHE"] = str(place / "cache")
            run_recipe("text-lstm", [*SETTINGS, *rest], out=place / "run", report=Meter(place / "measured", every))

        ended = done(train, place, seconds=3600)
        assert ended.status == 0, ended.err
        rows = torch.tensor(
            [[float(word) for word in line.split()] for line in (place / "measured").read_text().splitlines()]
        )
    return judged(count, rows[rows[:, 0] > count / 10], time.perf_counter() - began)


def judged(count: int, rows: torch.Tensor, seconds: float) -> Result:
    """From a tenth of the way on: what memory grew by, in all and by a straight line through it."""
    steps, resident, files = rows.T.double()
    grown = float(resident[-1] - resident[0])
    centred = steps - steps.mean()
    slope = float((centred * resident).sum() / centred.pow(2).sum()) * 1000
    told = (
        f"{grown:+.0f} KB from step {steps[0]:,.0f} on, {slope:+.2f} KB a thousand steps, {files.min():.0f} to"
        f" {files.max():.0f} open files"
    )
    is_level = grown <= NOISE + PER_THOUSAND * count / 1000 and (slope <= PER_THOUSAND or count < LONG)
    if is_level and files.min() == files.max():
        return Result("memory", count, Counter({f"steps: {told}": count}), [], seconds)
    return Result("memory", count, Counter({FAILED: 1}), [Failure(told, f"{SETTINGS}", 0, 1)], seconds)
