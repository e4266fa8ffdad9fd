"""Workloads as values: their sides, devices, and the minimum cost of a call."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import torch

from clew.bench.timing import Call

T = TypeVar("T")
OURS = "clew"


@dataclass(frozen=True)
class Setting:
    """The device of a workload, and whether to run its quick form."""

    device: torch.device
    quick: bool = False

    def sizes(self, full: T, *, quick: T, cpu: T | None = None) -> T:
        """Return the sizes for this setting. `cpu` replaces `full` if that would take too long on a CPU."""
        if self.quick:
            return quick
        return cpu if cpu is not None and self.device.type == "cpu" else full

    @property
    def form(self) -> str:
        """The form: cpu, cpu-quick, cuda or cuda-quick. Only ratios of the same form are comparable."""
        return f"{self.device.type}-quick" if self.quick else self.device.type


@dataclass(frozen=True)
class Side:
    """One way of doing the work. `make` builds it on the device and returns the function to time. If the package that a
    side `needs` is not installed or fails, the side is left out with a note."""

    name: str
    make: Callable[[], Call]
    needs: str = ""


class Cost(NamedTuple):
    """The minimum cost of a call: the FLOPs of its matrix products, and the bytes of weights and caches that it reads
    from memory."""

    flops: float
    bytes: float = 0.0


@dataclass(frozen=True)
class Work:
    """A workload on a device: its sides, ours first; its sizes in words; the number of tokens per call, and its
    cost."""

    sides: Sequence[Side]
    sizes: str
    tokens: int
    cost: Cost | None = None
    dtype: torch.dtype = torch.float32


@dataclass(frozen=True)
class Workload:
    """A workload. `peers` are the names of the other sides that `build` may return."""

    name: str
    about: str
    build: Callable[[Setting], Work]
    peers: tuple[str, ...]
    devices: tuple[str, ...] = ("cpu", "cuda")
    rounds: int = 15
    warmup: int = 3


def training_cost(weights: float, tokens: float, scores: float = 0.0) -> Cost:
    """Return the cost of a training step: each token is multiplied with every weight once in the forward pass and twice
    in the backward pass. `scores` is the number of additional multiplications of attention in the forward pass."""
    return Cost(6 * (weights * tokens + scores))


def decoding_cost(weights: float, rows: int, steps: int, dtype: torch.dtype, cached: float = 0.0) -> Cost:
    """Return the cost of decoding `steps` tokens per row: every step reads all weights, and `cached` values per row;
    each is multiplied once per row."""
    return Cost(2 * (weights + cached) * rows * steps, (weights + cached * rows) * steps * dtype.itemsize)
