"""The roofline of this machine (Williams et al. 2009): the measured rates of matrix products and copies, from which
lower bounds of times follow."""

import time
from collections.abc import Callable
from typing import NamedTuple

import torch

from clew.bench.timing import synchroniser, timed
from clew.bench.workload import Cost

PRODUCT = {"cpu": 1024, "cuda": 8192}
"""The size of the square matrices."""
COPIED = {"cpu": 2**27, "cuda": 2**30}
"""The size of a copy in bytes, larger than any cache."""
ROUNDS = 7


class Roofline(NamedTuple):
    flops: float
    """FLOPs per second of matrix products."""
    bandwidth: float
    """Bytes per second, reads and writes together."""

    def floor(self, cost: Cost) -> float:
        """Return the lower bound in seconds: the larger of the times for products and for memory."""
        return max(cost.flops / self.flops, cost.bytes / self.bandwidth)


def measure_roofline(
    device: torch.device, dtype: torch.dtype, clock: Callable[[], float] = time.perf_counter
) -> Roofline:
    """Measure the best rates of several rounds: the roofline is the highest rate that can be reached."""
    wait, size = synchroniser(device), PRODUCT[device.type]
    a, b = (torch.randn(size, size, device=device).to(dtype) for _ in "ab")
    product = torch.empty_like(a)
    source = torch.zeros(COPIED[device.type], dtype=torch.uint8, device=device)
    target = torch.zeros_like(source)
    by_product = min(timed(lambda: torch.mm(a, b, out=product), wait, clock) for _ in range(ROUNDS))
    by_copy = min(timed(lambda: target.copy_(source), wait, clock) for _ in range(ROUNDS))
    return Roofline(2 * size**3 / by_product, 2 * source.numel() / by_copy)
