"""Batches made ahead of time by processes of their own. A batch is a function of its position, so that any number of
them makes the same batches in the same order."""

import signal
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from clew.core.batches import Batches, map_batch
from clew.core.errors import UserError

AHEAD = 4
"""Batches that each process makes ahead."""


class Loader(Batches):
    """The same batches, made by `workers` processes (none: when they are asked for), in memory that a GPU can read
    where `pin` says so.

    The processes are forked, so that they share the memory map of the text. A stream is read in its order, so that it
    has no use for them: it is encoded ahead of time by itself.
    """

    def __init__(self, batches: Batches, workers: int, pin: bool):
        super().__init__(batches.per_epoch, batches.get, batches.own)
        self.batches = batches
        self.workers = workers if sys.platform == "linux" and not batches.is_stream else 0
        self.pin = pin

    def place(self, epoch: int, batch: int) -> Any:
        return self.batches.place(epoch, batch)

    def ahead(
        self, epoch: int, batch: int, part: int = 0, parts: int = 1, place: Any = None
    ) -> Iterator[tuple[int, int, Any]]:
        return (
            self._made_elsewhere(epoch, batch, part, parts)
            if self.workers
            else self._made_here(epoch, batch, part, parts, place)
        )

    def _made_here(self, epoch: int, batch: int, part: int, parts: int, place: Any) -> Iterator[tuple[int, int, Any]]:
        for e, b, made in self.batches.ahead(epoch, batch, part, parts, place):
            yield e, b, map_batch(torch.Tensor.pin_memory, made) if self.pin else made

    def _made_elsewhere(self, epoch: int, batch: int, part: int, parts: int) -> Iterator[tuple[int, int, Any]]:
        made: Any = None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore"
                )  # of more workers than cores, and of forking beside threads: these only read arrays
                loader = DataLoader(
                    _ByPosition(self, part, parts),
                    batch_size=None,
                    sampler=self.positions(epoch, batch),
                    collate_fn=lambda made: made,
                    num_workers=self.workers,
                    prefetch_factor=AHEAD,
                    pin_memory=self.pin,
                    worker_init_fn=_leave_signals_to_the_first,
                    multiprocessing_context="fork",
                )
                made = iter(loader)  # where a worker may die already: it begins at once
            yield from made
        except RuntimeError as error:
            if "DataLoader worker" not in str(error):
                raise
            raise UserError(
                "a process that makes batches died (killed, or out of memory); go on by --resume, "
                "with training.workers=0 if it happens again"
            ) from error
        finally:
            if (
                made is not None
            ):  # an error holds on to it: freed with that, it would wait for processes it can no longer tell to end
                made._shutdown_workers()


class _ByPosition(Dataset[Any]):
    def __init__(self, batches: Batches, part: int, parts: int):
        self.batches = batches
        self.part, self.parts = part, parts

    def __getitem__(self, position: tuple[int, int]) -> tuple[int, int, Any]:
        return *position, self.batches.share(*position, self.part, self.parts)


def _leave_signals_to_the_first(worker: int) -> None:
    """Ctrl-C reaches every process of a terminal, and SIGTERM often every process of a job: the one that trains saves
    and ends, and the others with it. A second SIGTERM is the loader's own."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, frame: signal.signal(number, signal.SIG_DFL) and None)
    torch.set_num_threads(1)
