"""Profile a call: the time of GPU kernels or CPU operators by name. This file knows no model."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from clew.bench.timing import Call

CALLS = 3
MOST = 25


class KernelTime(NamedTuple):
    """How often a kernel runs in one call, and its total time."""

    kernel: str
    runs: float
    seconds: float


def profile_call(call: Call, device: torch.device, wait: Callable[[], None], most: int = MOST) -> list[KernelTime]:
    """Return the `most` slowest kernels of a call, slowest first, and the sum of all others."""
    on_gpu = device.type == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    wait()
    with profile(activities=activities) as profiler:
        for _ in range(CALLS):
            call()
        wait()
    times = sorted(
        (kernel_time_of(event, on_gpu) for event in profiler.key_averages() if is_kernel(event, on_gpu)),
        key=lambda each: -each.seconds,
    )
    rest = times[most:]
    return times[:most] + (
        [KernelTime("others", sum(x.runs for x in rest), sum(x.seconds for x in rest))] if rest else []
    )


def is_kernel(event: Any, on_gpu: bool) -> bool:
    return bool(event.device_type == (DeviceType.CUDA if on_gpu else DeviceType.CPU)) and not event.key.startswith(
        "ProfilerStep"
    )


def kernel_time_of(event: Any, on_gpu: bool) -> KernelTime:
    microseconds = event.self_device_time_total if on_gpu else event.self_cpu_time_total
    return KernelTime(event.key, event.count / CALLS, microseconds / CALLS / 1e6)
