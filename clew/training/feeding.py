"""This process's rows of one batch after the other, brought to the device ahead of time. Knows no task."""

from typing import Any, NamedTuple

import torch

from clew.core.batches import Batches, map_batch, num_rows, rows_of, to_device
from clew.core.processes import rank, world_size


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether torch could not get the memory it asked for, on any device."""
    return (
        isinstance(error, torch.OutOfMemoryError)
        or "can't allocate memory" in str(error)
        or "out of memory" in str(error)
    )


class Fed(NamedTuple):
    """A process's rows of the batch at a position. A process has to run the model as often as the others, so that one
    without rows gets the batch's first, which must count for nothing: `is_real` is false then."""

    epoch: int
    number: int
    batch: Any
    is_real: bool
    copy: Any = None  # the batch on the device, where it was brought there ahead of time


class Feed:
    """Batches from a position on, and of a stream from its place. On CUDA the next batch is copied by a stream of its
    own while a step runs."""

    def __init__(self, batches: Batches, epoch: int, number: int, device: torch.device, place: Any = None):
        self.batches = batches
        self.source = batches.ahead(epoch, number, rank(), world_size(), place)
        self.device = device
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self.waiting: Fed | None = None

    def prepare(self) -> None:
        """Makes the next batch and starts its copy, where the device can do that beside a step that is under way."""
        if self.stream is None or self.waiting is not None:
            return
        fed = self._made()
        try:
            with torch.cuda.stream(self.stream):
                self.waiting = fed._replace(copy=to_device(fed.batch, self.device))
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            self.waiting = fed  # copied in parts, when it is used

    def take(self) -> Fed:
        fed, self.waiting = self.waiting or self._made(), None
        if self.stream is not None and fed.copy is not None:
            current = torch.cuda.current_stream(self.device)
            current.wait_stream(self.stream)
            map_batch(
                lambda tensor: tensor.record_stream(current), fed.copy
            )  # its memory is not used again before the step is done
        return fed

    def _made(self) -> Fed:
        epoch, number, batch = next(self.source)
        if num_rows(batch):
            return Fed(epoch, number, batch, True)
        return Fed(epoch, number, rows_of(self.batches.get(epoch, number), slice(0, 1)), False)
