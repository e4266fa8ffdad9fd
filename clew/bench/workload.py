"""A workload as a value: its sides, its devices, and the minimum cost of a call."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import torch

from clew.bench.timing import Call

T = TypeVar("T")
OURS = "clew"


@dataclass(frozen=True)
class Setting:
    """The device of a workload, and whether it runs in its quick form."""

    device: torch.device
    quick: bool = False

    def sizes(self, full: T, *, quick: T, cpu: T | None = None) -> T:
        """The sizes for this setting; `cpu` if a CPU would take too long for the full ones."""
        if self.quick:
            return quick
        return cpu if cpu is not None and self.device.type == "cpu" else full

    @property
    def form(self) -> str:
        """Ratios are comparable within a form: cpu, cpu-quick, cuda, cuda-quick."""
        return f"{self.device.type}-quick" if self.quick else self.device.type


@dataclass(frozen=True)
class Side:
    """One way of doing the work. `make` builds it on the device and returns the function to time. A side that `needs` a
    package is left out, with a note, if the package is not installed or fails."""

    name: str
    make: Callable[[], Call]
    needs: str = ""


class Cost(NamedTuple):
    """The minimum cost of a call: FLOPs of matrix products, and bytes of weights and caches read from memory."""

    flops: float
    bytes: float = 0.0


@dataclass(frozen=True)
class Work:
    """A workload on a device: its sides, ours first; its sizes in words; and the output and cost of one call."""

    sides: Sequence[Side]
    sizes: str
    tokens: int
    cost: Cost | None = None
    dtype: torch.dtype = torch.float32


@dataclass(frozen=True)
class Workload:
    """A workload by `name`; `peers` are the names of the other sides that `build` may return."""

    name: str
    about: str
    build: Callable[[Setting], Work]
    peers: tuple[str, ...]
    devices: tuple[str, ...] = ("cpu", "cuda")
    rounds: int = 15
    warmup: int = 3


def trained(weights: float, tokens: float, scores: float = 0.0) -> Cost:
    """The cost of a training step: each token is multiplied with every weight once forwards and twice backwards.
    `scores` are attention's additional multiplications in the forward pass."""
    return Cost(6 * (weights * tokens + scores))


def decoded(weights: float, rows: int, steps: int, dtype: torch.dtype, cached: float = 0.0) -> Cost:
    """The cost of decoding `steps` tokens per row: every step reads all weights, and `cached` values per row; each is
    multiplied once per row."""
    return Cost(2 * (weights + cached) * rows * steps, (weights + cached * rows) * steps * dtype.itemsize)
