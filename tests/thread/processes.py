"""What one of several processes runs: the same training as a process alone, on its share of every batch."""

from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from clew.training.loop import Batches, Standing, train
from clew.training.optimisers import adamw
from clew.training.processes import rank, replicate, world_size
from clew.training.schedules import Constant
from tests.thread.models import MODELS, chunks_of, regularised, rows_of, whole_batch

STEPS = 5
TRAINED = {**MODELS, "regularised": regularised}


def train_share(process: int, processes: int, folder: Path) -> None:
    """Trains every model under a process group and leaves losses and weights behind."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder / 'meeting'}", rank=process, world_size=processes)
    try:
        for name in TRAINED:
            torch.save(trained(name), folder / f"{name}-{process}.pt")
    finally:
        dist.destroy_process_group()


def trained(name: str) -> dict[str, Any]:
    """Losses, norms and weights of a few steps on this process's rows: two micro-batches a step, streams carried where the task can."""
    task = TRAINED[name]().double()
    whole = whole_batch(name, task)
    batches = [whole] if name == "decoder" else chunks_of(whole, 9)

    def get(epoch: int, number: int) -> list[Any]:
        rows = len(whole.tokens) // world_size()
        share = rows_of(batches[number], slice(rank() * rows, (rank() + 1) * rows))
        return [rows_of(share, slice(None, 1)), rows_of(share, slice(1, None))]

    records = list(
        train(
            replicate(task),
            Batches(lambda epoch: len(batches), get),
            adamw(task.parameters(), 0.01),
            Constant(STEPS),
            steps=STEPS,
            standing=Standing(),
            seed=1,
            carry=name != "decoder",
            clip_norm=0.5,
            counts=task.counts,
        )
    )
    return {"losses": [r.loss for r in records], "norms": [r.gradient_norm for r in records], "weights": task.state_dict()}
