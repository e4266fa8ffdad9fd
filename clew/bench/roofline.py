"""What this machine can do: products of matrices and copies a second, measured, and the time that no program can be below (Williams et al.
2009)."""

import time
from collections.abc import Callable
from typing import NamedTuple

import torch

from clew.bench.timing import timed, waiting
from clew.bench.workload import Cost

PRODUCT = {"cpu": 1024, "cuda": 8192}
"""Rows and columns of the matrices."""
COPIED = {"cpu": 2**27, "cuda": 2**30}
"""Bytes, more than caches hold."""
ROUNDS = 7


class Roofline(NamedTuple):
    flops: float
    """A second, in products of matrices."""
    bandwidth: float
    """Bytes a second, read and written."""

    def floor(self, cost: Cost) -> float:
        """Seconds: as long as the products take, or as long as memory takes, whichever is longer."""
        return max(cost.flops / self.flops, cost.bytes / self.bandwidth)


def measure_roofline(device: torch.device, dtype: torch.dtype, clock: Callable[[], float] = time.perf_counter) -> Roofline:
    """The best of some rounds: a roof is what can be reached."""
    wait, size = waiting(device), PRODUCT[device.type]
    a, b = (torch.randn(size, size, device=device).to(dtype) for _ in "ab")
    product = torch.empty_like(a)
    source = torch.zeros(COPIED[device.type], dtype=torch.uint8, device=device)
    target = torch.zeros_like(source)
    by_product = min(timed(lambda: torch.mm(a, b, out=product), wait, clock) for _ in range(ROUNDS))
    by_copy = min(timed(lambda: target.copy_(source), wait, clock) for _ in range(ROUNDS))
    return Roofline(2 * size**3 / by_product, 2 * source.numel() / by_copy)
