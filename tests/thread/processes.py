"""The code of one of several processes: the training of a single process, on its share of every batch."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from clew.core.processes import leave_process_group
from clew.training.backward import StepOptions
from clew.training.loop import train
from clew.training.optimisers import adamw
from clew.training.parallel import replicate, shard, whole_weights
from clew.training.records import Progress
from clew.training.schedules import Constant
from tests.thread.models import MODELS, batches_of, chunks_of, regularised, whole_batch

STEPS = 5
TRAINED = {**MODELS, "regularised": regularised}


def train_share(process: int, processes: int, folder: Path) -> None:
    """Train every model in a process group, and save losses and weights."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder / 'meeting'}", rank=process, world_size=processes)
    try:
        for name in TRAINED:
            for spread in (replicate, shard):
                torch.save(trained(name, spread), folder / f"{name}-{spread.__name__}-{process}.pt")
    finally:
        leave_process_group()


def trained(name: str, spread: Callable[[nn.Module], nn.Module] = replicate) -> dict[str, Any]:
    """Losses, norms and weights after a few steps on this process's rows, with two micro-batches per step and a carried
    state if the task has one."""
    task = TRAINED[name]().double()
    whole = whole_batch(name, task)
    batches = batches_of([whole] if name == "decoder" else chunks_of(whole, 9))
    records = list(
        train(
            spread(task),
            batches,
            adamw(task.parameters(), 0.01),
            Constant(STEPS),
            StepOptions(seed=1, carry=name != "decoder", accumulate=2, clip_norm=0.5, counts=task.counts),
            steps=STEPS,
            progress=Progress(),
        )
    )
    return {
        "losses": [r.loss for r in records],
        "norms": [r.gradient_norm for r in records],
        "weights": whole_weights(task),
    }
