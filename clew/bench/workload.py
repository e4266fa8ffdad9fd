"""A workload as a value: what is done, by whom, on which devices, and what it must cost at least."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import torch

from clew.bench.timing import Call

T = TypeVar("T")
OURS = "clew"


@dataclass(frozen=True)
class Setting:
    """Where a workload runs, and whether in its quick form."""

    device: torch.device
    quick: bool = False

    def sizes(self, full: T, *, quick: T, cpu: T | None = None) -> T:
        """Those of this setting; `cpu` where a CPU would take too long for the full ones."""
        if self.quick:
            return quick
        return cpu if cpu is not None and self.device.type == "cpu" else full

    @property
    def form(self) -> str:
        """Ratios are comparable within a form: cpu, cpu-quick, cuda, cuda-quick."""
        return f"{self.device.type}-quick" if self.quick else self.device.type


@dataclass(frozen=True)
class Side:
    """One way of doing the work. `make` builds it on the device and gives what is timed. A side that `needs` a package is left out, with a
    note, where the package is not installed or cannot do it."""

    name: str
    make: Callable[[], Call]
    needs: str = ""


class Cost(NamedTuple):
    """What a call cannot do without: products of matrices, and bytes of weights and caches that are read from memory."""

    flops: float
    bytes: float = 0.0


@dataclass(frozen=True)
class Work:
    """A workload on a device: its sides, ours first, its sizes in words, and what one call produces and costs."""

    sides: Sequence[Side]
    sizes: str
    tokens: int
    cost: Cost | None = None
    dtype: torch.dtype = torch.float32


@dataclass(frozen=True)
class Workload:
    """`name` is what it is asked for by; `peers` are the names of the sides besides ours that its `build` may give."""

    name: str
    about: str
    build: Callable[[Setting], Work]
    peers: tuple[str, ...]
    devices: tuple[str, ...] = ("cpu", "cuda")
    rounds: int = 15
    warmup: int = 3


def trained(weights: float, tokens: float, scores: float = 0.0) -> Cost:
    """A training step: each token is multiplied with every weight forwards and twice backwards. `scores` are multiplications of attention
    forwards, besides."""
    return Cost(6 * (weights * tokens + scores))


def decoded(weights: float, rows: int, steps: int, dtype: torch.dtype, cached: float = 0.0) -> Cost:
    """`steps` tokens in each row: every step reads all weights, and `cached` values a row; each of them is multiplied once a row."""
    return Cost(2 * (weights + cached) * rows * steps, (weights + cached * rows) * steps * dtype.itemsize)
