"""Two ways of doing the same work, timed in turns in one process, so that a noisy machine is noisy to both."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Comparison:
    """Seconds a call, the median of several rounds; `ratio` is ours over the peer's, so below 1 is faster."""

    workload: str
    peer: str
    ours: float
    theirs: float
    tokens: int

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs

    def __str__(self) -> str:
        return (
            f"{self.workload:42} {self.tokens / self.ours:>10,.0f} tokens/s  {self.peer:28} {self.tokens / self.theirs:>10,.0f} tokens/s   "
            f"time {self.ratio:.2f}x"
        )


def compare(
    workload: str, peer: str, ours: Callable[[], object], theirs: Callable[[], object], *, tokens: int, rounds: int = 15, warmup: int = 3
) -> Comparison:
    """Calls the two in turns, the first of each round changing, after some rounds that are not counted."""
    times: dict[str, list[float]] = {"ours": [], "theirs": []}
    for number in range(warmup + rounds):
        pair = [("ours", ours), ("theirs", theirs)]
        for name, call in pair if number % 2 else reversed(pair):
            seconds = timed(call)
            if number >= warmup:
                times[name].append(seconds)
    return Comparison(workload, peer, statistics.median(times["ours"]), statistics.median(times["theirs"]), tokens)


def timed(call: Callable[[], object]) -> float:
    wait()
    began = time.perf_counter()
    call()
    wait()
    return time.perf_counter() - began


def wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
