"""Batches made ahead of time by worker processes. A batch is a function of its position, so that any number of workers
makes the same batches in the same order."""

import signal
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from clew.core.batches import Batches, map_batch
from clew.core.errors import UserError
from clew.core.wording import argument

AHEAD = 4
"""The number of batches that each worker makes ahead of time."""


class Loader(Batches):
    """The same batches, made ahead of time by `workers` processes; with 0 workers, on demand. `pin` puts them in pinned
    memory.

    Workers are forked, so that they share the memory map of the text. A stream is read in order and does not use
    workers: it is encoded ahead of time elsewhere (`data.streams`).
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
            self._from_workers(epoch, batch, part, parts)
            if self.workers
            else self._on_demand(epoch, batch, part, parts, place)
        )

    def _on_demand(self, epoch: int, batch: int, part: int, parts: int, place: Any) -> Iterator[tuple[int, int, Any]]:
        for e, b, content in self.batches.ahead(epoch, batch, part, parts, place):
            yield e, b, map_batch(torch.Tensor.pin_memory, content) if self.pin else content

    def _from_workers(self, epoch: int, batch: int, part: int, parts: int) -> Iterator[tuple[int, int, Any]]:
        items: Any = None
        try:
            with warnings.catch_warnings():
                # torch warns of more workers than cores, and Python of forking with threads; workers only read arrays.
                warnings.simplefilter("ignore")
                loader = DataLoader(
                    _ByPosition(self, part, parts),
                    batch_size=None,
                    sampler=self.positions(epoch, batch),
                    collate_fn=lambda item: item,
                    num_workers=self.workers,
                    prefetch_factor=AHEAD,
                    pin_memory=self.pin,
                    worker_init_fn=_leave_signals_to_the_first,
                    multiprocessing_context="fork",
                )
                items = iter(loader)  # inside `try`: workers start here and may die immediately
            yield from items
        except RuntimeError as error:
            if "DataLoader worker" not in str(error):
                raise
            raise UserError(
                "a worker process that makes batches died (killed, or out of memory); resume with"
                f" {argument('resume', True)}, and with"
                " training.workers=0 if it happens again"
            ) from error
        finally:
            # An error's traceback keeps the iterator alive; freed later, it would wait for workers for ever.
            if items is not None:
                items._shutdown_workers()


class _ByPosition(Dataset[Any]):
    def __init__(self, batches: Batches, part: int, parts: int):
        self.batches = batches
        self.part, self.parts = part, parts

    def __getitem__(self, position: tuple[int, int]) -> tuple[int, int, Any]:
        return *position, self.batches.share(*position, self.part, self.parts)


def _leave_signals_to_the_first(worker: int) -> None:
    """Ignore the first signals in a worker. Ctrl-C reaches every process of a terminal, and SIGTERM often every process
    of a job; the training process saves and then ends its workers. A second SIGTERM comes from the DataLoader."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, frame: signal.signal(number, signal.SIG_DFL) and None)
    torch.set_num_threads(1)
