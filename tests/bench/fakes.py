"""A fake clock that each call of a side advances by a given number of seconds."""

from collections.abc import Callable, Sequence

import torch

from clew.bench.roofline import Roofline
from clew.bench.workload import Cost, Setting, Side, Work, Workload


class Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.called: list[str] = []

    def __call__(self) -> float:
        return self.now

    def side(self, name: str, seconds: Sequence[float]) -> Callable[[], None]:
        """A call that takes these seconds in turn, and the last of them from then on."""
        remaining = list(seconds)

        def call() -> None:
            self.called.append(name)
            self.now += remaining.pop(0) if len(remaining) > 1 else remaining[0]

        return call


def fake_workload(clock: Clock, name: str = "fake", cost: Cost | None = None, **seconds: Sequence[float]) -> Workload:
    """A workload with these sides and the seconds of their calls; the first call is the warm-up."""

    def build(setting: Setting) -> Work:
        sides = [Side(side, lambda side=side, each=each: clock.side(side, each)) for side, each in seconds.items()]  # type: ignore[misc]
        return Work(sides, "no sizes", tokens=100, cost=cost)

    return Workload(
        name, "nothing at all", build, tuple(side for side in seconds if side != "clew"), rounds=3, warmup=1
    )


def fake_roofline(device: torch.device, dtype: torch.dtype, clock: Callable[[], float]) -> Roofline:
    return Roofline(flops=1000.0, bandwidth=10.0)
