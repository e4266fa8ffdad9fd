"""Profile a call: the time of GPU kernels or CPU operators by name. Knows no model."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from clew.bench.timing import Call

CALLS = 3
MOST = 25


class Spent(NamedTuple):
    """The number of runs and the total time of a kernel in one call."""

    kernel: str
    runs: float
    seconds: float


def profiled(call: Call, device: torch.device, wait: Callable[[], None], most: int = MOST) -> list[Spent]:
    """The `most` slowest kernels, slowest first, and the sum of all others."""
    on_gpu = device.type == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    wait()
    with profile(activities=activities) as seen:
        for _ in range(CALLS):
            call()
        wait()
    spent = sorted(
        (spent_of(event, on_gpu) for event in seen.key_averages() if is_kernel(event, on_gpu)),
        key=lambda each: -each.seconds,
    )
    others = spent[most:]
    return spent[:most] + (
        [Spent("others", sum(x.runs for x in others), sum(x.seconds for x in others))] if others else []
    )


def is_kernel(event: Any, on_gpu: bool) -> bool:
    return bool(event.device_type == (DeviceType.CUDA if on_gpu else DeviceType.CPU)) and not event.key.startswith(
        "ProfilerStep"
    )


def spent_of(event: Any, on_gpu: bool) -> Spent:
    microseconds = event.self_device_time_total if on_gpu else event.self_cpu_time_total
    return Spent(event.key, event.count / CALLS, microseconds / CALLS / 1e6)
