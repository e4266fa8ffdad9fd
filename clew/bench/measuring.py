"""Measure a workload: build and warm up its sides one by one, then time them in turns."""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec

import torch

from clew.bench.profiling import profile_call
from clew.bench.results import Result, SideResult
from clew.bench.roofline import Roofline, measure_roofline
from clew.bench.timing import Call, interleave, synchroniser
from clew.bench.workload import OURS, Setting, Side, Workload
from clew.core.errors import shortened

QUICK_ROUNDS, QUICK_WARMUP, QUICK_SECONDS = 5, 1, 1.5
Roofs = Callable[[torch.device, torch.dtype, Callable[[], float]], Roofline]
rooflines = cache(measure_roofline)
"""The roofline of each device and dtype, measured once per process."""


def measure_workload(
    workload: Workload,
    setting: Setting,
    *,
    roofline: Roofs = rooflines,
    clock: Callable[[], float] | None = None,
    profile: bool = False,
) -> Result:
    """Measure a workload. With `profile`, each side is also profiled after the timing."""
    with limited_threads(setting):
        return measure_sides(workload, setting, roofline, clock or clock_of(setting), profile)


def measure_sides(
    workload: Workload, setting: Setting, roofline: Roofs, clock: Callable[[], float], profile: bool
) -> Result:
    torch.manual_seed(0)
    work = workload.build(setting)
    warmup = QUICK_WARMUP if setting.quick else workload.warmup
    calls, memory, notes = dict[str, Call](), dict[str, int | None](), list[str]()
    for side in work.sides:
        try:
            calls[side.name], memory[side.name] = build_and_warm_up(side, setting.device, warmup)
        except Unavailable as why:
            notes.append(f"{side.name} is left out: {why}")
    rounds, seconds = (QUICK_ROUNDS, QUICK_SECONDS) if setting.quick else (workload.rounds, 0.0)
    wait = synchroniser(setting.device)
    times = interleave(calls, rounds=rounds, seconds=seconds, wait=wait, clock=clock)
    profiles = {name: profile_call(call, setting.device, wait) for name, call in calls.items()} if profile else {}
    calls.clear()
    release(setting.device)
    roof = None if work.cost is None else roofline(setting.device, work.dtype, clock)
    sides = {name: SideResult(timing, memory[name]) for name, timing in times.items()}
    return Result(workload.name, work.sizes, setting.form, work.tokens, sides, work.cost, roof, notes, profiles)


def clock_of(setting: Setting) -> Callable[[], float]:
    """Return the clock: wall time, or in the quick form on a CPU the CPU time of its single thread, which does not
    depend on other processes."""
    exact = time.get_clock_info("process_time").resolution < 1e-5
    return time.process_time if exact and setting.quick and setting.device.type == "cpu" else time.perf_counter


def threads(setting: Setting) -> int:
    """Return the number of threads: one in the quick form, since several threads on a busy machine mostly wait for each
    other."""
    return 1 if setting.quick else torch.get_num_threads()


@contextmanager
def limited_threads(setting: Setting) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(threads(setting))
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Unavailable(Exception):
    """A peer from another package cannot run here; the message says why."""


def build_and_warm_up(side: Side, device: torch.device, warmup: int) -> tuple[Call, int | None]:
    """Build and warm up a side; on CUDA also return its peak memory, including weights. No other side runs meanwhile,
    so the memory is that of this side."""
    if side.needs and find_spec(side.needs) is None:
        raise Unavailable(f"{side.needs} is not installed")
    release(device)
    before = torch.cuda.memory_allocated(device) if device.type == "cuda" else 0
    if device.type == "cuda":  # before building: a CUDA graph allocates its memory only once, at capture
        torch.cuda.reset_peak_memory_stats(device)
    try:
        call = side.make()
        for _ in range(warmup):
            call()
    except Exception as error:
        if not side.needs or side.name == OURS:
            raise
        raise Unavailable(
            f"{side.needs} says {type(error).__name__}: {shortened(' '.join(str(error).split()))}"
        ) from error
    if device.type != "cuda":
        return call, None
    torch.cuda.synchronize(device)
    return call, torch.cuda.max_memory_allocated(device) - before


def release(device: torch.device) -> None:
    """Free unused memory, so that it is not counted for the next side."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
