"""Many small steps of a run with evaluations, checkpoints and metrics: memory and the number of open files must stay
level. The number of trials is the number of steps."""

import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch

from benchmarks.faults.children import run_child, temporary_folder
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
"""The allowed growth per thousand steps, in KB."""
NOISE = 1536.0
"""The allowed noise of the allocator, in KB."""
LONG = 20_000
"""The number of steps from which on growth per step can be told from noise."""


class Meter(Silence):
    """Record memory and the number of open files every `every` steps.

    Memory is anonymous memory in KB. It excludes pages of files, such as torch's libraries, which are loaded on use.
    """

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
    with temporary_folder("memory") as workspace:
        every = max(count // 1000, 1) * 10
        text = text_beside(workspace / "run")
        settings = [
            f"training.steps={count}",
            f"training.evaluate_every={max(count // 10, 1)}",
            f"seed={seed}",
            f"data.train={text}",
        ]

        def train() -> None:
            os.environ["CLEW_CACHE"] = str(workspace / "cache")
            run_recipe(
                "text-lstm", [*SETTINGS, *settings], out=workspace / "run", report=Meter(workspace / "measured", every)
            )

        process = run_child(train, workspace, seconds=3600)
        assert process.status == 0, process.err
        rows = torch.tensor(
            [[float(word) for word in line.split()] for line in (workspace / "measured").read_text().splitlines()]
        )
    return judge(count, rows[rows[:, 0] > count / 10], time.perf_counter() - began)


def judge(count: int, rows: torch.Tensor, seconds: float) -> Result:
    """Judge the growth of memory: the total, and the slope of a fitted line."""
    steps, resident, files = rows.T.double()
    growth = float(resident[-1] - resident[0])
    centred = steps - steps.mean()
    slope = float((centred * resident).sum() / centred.pow(2).sum()) * 1000
    summary = (
        f"{growth:+.0f} KB from step {steps[0]:,.0f} on, {slope:+.2f} KB per thousand steps, {files.min():.0f} to"
        f" {files.max():.0f} open files"
    )
    is_level = growth <= NOISE + PER_THOUSAND * count / 1000 and (slope <= PER_THOUSAND or count < LONG)
    if is_level and files.min() == files.max():
        return Result("memory", count, Counter({f"steps: {summary}": count}), [], seconds)
    return Result("memory", count, Counter({FAILED: 1}), [Failure(summary, f"{SETTINGS}", 0, 1)], seconds)
