"""Processes that train together, forked as children and joined by gloo over a file."""

import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import torch.distributed as dist

from benchmarks.faults.children import LONGEST, Child, Ended
from clew.core.processes import leave_process_group


def together(do: Callable[[int], None], processes: int, folder: Path) -> None:
    """`do(rank)` on so many processes that wait for each other; fails where one of them does."""
    place = meeting(folder)
    for ended in results([joined(do, rank, processes, place) for rank in range(processes)], folder):
        assert ended.status == 0, ended.last


def meeting(folder: Path) -> str:
    """A file of its own that a group finds itself by."""
    folder.mkdir(parents=True, exist_ok=True)
    return f"file://{tempfile.mkdtemp(prefix='meeting-', dir=folder)}/store"


def joined(do: Callable[[int], None], rank: int, processes: int, place: str) -> Callable[[], None]:
    def live() -> None:
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(processes))
        dist.init_process_group("gloo", init_method=place, rank=rank, world_size=processes)
        try:
            do(rank)
        finally:
            leave_process_group()

    return live


def results(lives: Sequence[Callable[[], None]], folder: Path, seconds: float = LONGEST) -> list[Ended]:
    with ExitStack() as stack:
        children = [stack.enter_context(Child(live, folder)) for live in lives]
        return [child.wait(seconds) for child in children]
