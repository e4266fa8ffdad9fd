"""Processes that train together: forked children in a gloo group, which meet through a file."""

import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import torch.distributed as dist

from benchmarks.faults.children import TIMEOUT, Child, CompletedProcess
from clew.core.processes import leave_process_group


def run_group(function: Callable[[int], None], processes: int, folder: Path) -> None:
    """Run `function(rank)` in a group of processes, and fail if one of them fails."""
    store = make_store(folder)
    for process in run_children([in_group(function, rank, processes, store) for rank in range(processes)], folder):
        assert process.status == 0, process.last_line


def make_store(folder: Path) -> str:
    """Return the address of a new file through which the processes of a group meet."""
    folder.mkdir(parents=True, exist_ok=True)
    return f"file://{tempfile.mkdtemp(prefix='meeting-', dir=folder)}/store"


def in_group(function: Callable[[int], None], rank: int, processes: int, store: str) -> Callable[[], None]:
    def run() -> None:
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(processes))
        dist.init_process_group("gloo", init_method=store, rank=rank, world_size=processes)
        try:
            function(rank)
        finally:
            leave_process_group()

    return run


def run_children(
    functions: Sequence[Callable[[], None]], folder: Path, seconds: float = TIMEOUT
) -> list[CompletedProcess]:
    with ExitStack() as stack:
        children = [stack.enter_context(Child(function, folder)) for function in functions]
        return [child.wait(seconds) for child in children]
