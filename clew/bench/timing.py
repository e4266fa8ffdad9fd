"""Time several ways of doing the same work in turns, in one process, so that noise affects all of them equally. This
file knows no model."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

Call = Callable[[], object]
MOST_ROUNDS = 60


@dataclass(frozen=True)
class Timing:
    """Seconds per call, one value per round."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def quartiles(self) -> tuple[float, float]:
        return quartiles(self.seconds)

    @property
    def spread(self) -> float:
        """The interquartile range as a share of the median."""
        low, high = self.quartiles
        return (high - low) / self.median


@dataclass(frozen=True)
class Ratio:
    """Our time over a peer's (below 1 is faster): the ratio of medians, and the quartiles of the ratios of single
    rounds."""

    value: float
    low: float
    high: float


def ratio(ours: Timing, theirs: Timing) -> Ratio:
    by_round = [a / b for a, b in zip(ours.seconds, theirs.seconds, strict=True)]
    return Ratio(ours.median / theirs.median, *quartiles(by_round))


def quartiles(values: list[float] | tuple[float, ...]) -> tuple[float, float]:
    """Return the first and third quartile with linear interpolation; for a single value, that value twice."""
    if len(values) == 1:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def interleave(
    calls: Mapping[str, Call],
    *,
    rounds: int,
    seconds: float = 0.0,
    wait: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Timing]:
    """Call every function once per round, starting each round with a different one: for at least `rounds` rounds, and
    until `seconds` have passed.

    `wait` returns when the device has finished its work.
    """
    names, times = list(calls), {name: list[float]() for name in calls}
    began, number = clock(), 0
    while number < rounds or (number < MOST_ROUNDS and clock() - began < seconds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            times[name].append(timed(calls[name], wait, clock))
        number += 1
    return {name: Timing(tuple(each)) for name, each in times.items()}


def timed(call: Call, wait: Callable[[], None], clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the seconds of one call, including its work on the device."""
    wait()
    began = clock()
    call()
    wait()
    return clock() - began


def synchroniser(device: torch.device) -> Callable[[], None]:
    """Return a function that waits until a device has finished its work."""
    return torch.cuda.synchronize if device.type == "cuda" else lambda: None
