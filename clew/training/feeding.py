"""This process's rows of each batch, copied to the device ahead of time. Knows no task."""

from typing import Any, NamedTuple

import torch

from clew.core.batches import Batches, map_batch, num_rows, rows_of, to_device
from clew.core.processes import rank, world_size


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether torch failed to allocate memory, on any device."""
    return (
        isinstance(error, torch.OutOfMemoryError)
        or "can't allocate memory" in str(error)
        or "out of memory" in str(error)
    )


class FedBatch(NamedTuple):
    """This process's rows of a batch. Every process must run the model the same number of times, so a process without
    rows gets the batch's first row; `is_real` is then False, and the row must not count."""

    epoch: int
    number: int
    batch: Any
    is_real: bool
    copy: Any = None  # the batch on the device, if it was copied ahead of time


class Feed:
    """Batches from a position on (for a stream of text, from `place` on). On CUDA, a separate CUDA stream copies the
    next batch while a step runs."""

    def __init__(self, batches: Batches, epoch: int, number: int, device: torch.device, place: Any = None):
        self.batches = batches
        self.source = batches.ahead(epoch, number, rank(), world_size(), place)
        self.device = device
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self.waiting: FedBatch | None = None

    def prepare(self) -> None:
        """Make the next batch and start to copy it, if the device can do so while a step runs."""
        if self.stream is None or self.waiting is not None:
            return
        fed = self._next()
        try:
            with torch.cuda.stream(self.stream):
                self.waiting = fed._replace(copy=to_device(fed.batch, self.device))
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            self.waiting = fed  # it is copied later, in micro-batches

    def take(self) -> FedBatch:
        fed, self.waiting = self.waiting or self._next(), None
        if self.stream is not None and fed.copy is not None:
            current = torch.cuda.current_stream(self.device)
            current.wait_stream(self.stream)
            # The allocator must not reuse the batch's memory before the step is done.
            map_batch(lambda tensor: tensor.record_stream(current), fed.copy)
        return fed

    def _next(self) -> FedBatch:
        epoch, number, batch = next(self.source)
        if num_rows(batch):
            return FedBatch(epoch, number, batch, True)
        return FedBatch(epoch, number, rows_of(self.batches.get(epoch, number), slice(0, 1)), False)
