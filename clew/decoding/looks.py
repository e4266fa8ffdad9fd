"""When the host looks at what a device has computed, and how it goes on with other work until the numbers are there."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import torch
from torch import Tensor

Item = TypeVar("Item")
_unasked: ContextVar[bool] = ContextVar("unasked", default=False)

LOOK = 16
"""Steps between two looks of the host at a GPU."""


def looks_every(device: torch.device) -> int:
    """How many steps are run before the host looks at what they gave: one where looking costs nothing."""
    return LOOK if device.type == "cuda" else 1


class Look:
    """A number on its way to the host. What the device is given to do from here on does not delay it."""

    def __init__(self, number: Tensor):
        self.number = number.to("cpu", non_blocking=True)
        self.arrival = None
        if number.is_cuda:
            self.arrival = torch.cuda.Event()
            self.arrival.record()

    def __call__(self) -> float:
        """The number, once it is there."""
        if self.arrival is not None:
            self.arrival.synchronize()
        return self.number.item()


def one_ahead(items: Iterable[Item]) -> Iterator[Item]:
    """Each item, once the next one has been asked for."""
    held: list[Item] = []
    for item in items:
        yield from held
        held = [item]
    yield from held


@contextmanager
def unasked() -> Iterator[None]:
    """Within this context a step is captured that will be replayed only where it needs no host (see `calm_steps`), and may not ask it."""
    token = _unasked.set(True)
    try:
        yield
    finally:
        _unasked.reset(token)


def is_unasked() -> bool:
    return _unasked.get()


def sent(numbers: Tensor, device: torch.device) -> Tensor:
    """Numbers of the host on a device, which is not waited for."""
    return numbers.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else numbers.to(device)
