"""Training in several processes, started as torchrun starts them."""

import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch.multiprocessing import start_processes

from clew.recipes.running import run_recipe
from tests.warm import METHOD

Run = tuple[list[str], str, bool]
"""Settings of a recipe, the run's folder, and whether the run is resumed."""


def train_together(processes: int, folder: Path, runs: Sequence[Run], recipe: str = "text-lstm") -> None:
    """Train each run with this number of processes."""
    start_processes(_train, args=(processes, folder, runs, recipe), nprocs=processes, start_method=METHOD)


def fit_together(processes: int, folder: Path, fit: Callable[[Path], None]) -> None:
    """Call a function that fits a module in a folder, in each of the processes."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    start_processes(_fit, args=(processes, port, folder, fit), nprocs=processes, start_method=METHOD)


def _fit(rank: int, processes: int, port: int, folder: Path, fit: Callable[[Path], None]) -> None:
    torch.set_num_threads(1)
    os.environ.update(
        MASTER_ADDR="127.0.0.1", RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(processes), MASTER_PORT=str(port)
    )
    fit(folder)


def _train(rank: int, processes: int, folder: Path, runs: Sequence[Run], recipe: str) -> None:
    torch.set_num_threads(1)
    os.chdir(folder)
    os.environ.update(CLEW_CACHE=str(folder / "cache"), MASTER_ADDR="127.0.0.1")
    for number, (settings, out, resume) in enumerate(runs):
        port = 20000 + (os.getppid() * 7 + number) % 20000
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(processes), MASTER_PORT=str(port))
        run_recipe(recipe, settings, out=Path(out), resume=resume)
