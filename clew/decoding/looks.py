"""When the host reads results from a device, and how it continues with other work until they arrive."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import torch
from torch import Tensor

Item = TypeVar("Item")
_without_host_reads: ContextVar[bool] = ContextVar("without_host_reads", default=False)

LOOK = 16
"""Steps between two reads of results from a GPU."""


def looks_every(device: torch.device) -> int:
    """Return how many steps run before the host reads their results: one if reading costs nothing."""
    return LOOK if device.type == "cuda" else 1


class Look:
    """A number being copied to the host. Work queued on the device from here on does not delay it."""

    def __init__(self, number: Tensor):
        self.number = number.to("cpu", non_blocking=True)
        self.arrival = None
        if number.is_cuda:
            self.arrival = torch.cuda.Event()
            self.arrival.record()

    def __call__(self) -> float:
        """Wait for the number and return it."""
        if self.arrival is not None:
            self.arrival.synchronize()
        return self.number.item()


def one_ahead(items: Iterable[Item]) -> Iterator[Item]:
    """Yield each item after the next one has been requested from `items`."""
    pending: list[Item] = []
    for item in items:
        yield from pending
        pending = [item]
    yield from pending


@contextmanager
def without_host_reads() -> Iterator[None]:
    """Capture a step that must not ask the host: it is replayed only when it need not (see `calm_steps`)."""
    token = _without_host_reads.set(True)
    try:
        yield
    finally:
        _without_host_reads.reset(token)


def is_without_host_reads() -> bool:
    return _without_host_reads.get()


def sent(numbers: Tensor, device: torch.device) -> Tensor:
    """Copy numbers from the host to a device without waiting for it."""
    return numbers.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else numbers.to(device)
