"""Time two ways of doing the same work in turns, as `clew bench` does, for comparisons that are not its workloads."""

from dataclasses import dataclass

import torch

from clew.bench import timing
from clew.bench.timing import Call, interleave, synchroniser


@dataclass(frozen=True)
class Comparison:
    """Median seconds per call over several rounds. `ratio` is our time over the peer's, so below 1 is faster."""

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
            f"{self.workload:42} {self.tokens / self.ours:>10,.0f} tokens/s  {self.peer:28}"
            f" {self.tokens / self.theirs:>10,.0f} tokens/s   time {self.ratio:.2f}x"
        )


def compare(
    workload: str, peer: str, ours: Call, theirs: Call, *, tokens: int, rounds: int = 15, warmup: int = 3
) -> Comparison:
    """Call both in turns, starting each round with the other one, after some warm-up rounds."""
    calls, wait = {"ours": ours, "theirs": theirs}, synchroniser(default_device())
    interleave(calls, rounds=warmup, wait=wait)
    times = interleave(calls, rounds=rounds, wait=wait)
    return Comparison(workload, peer, times["ours"].median, times["theirs"].median, tokens)


def timed(call: Call) -> float:
    return timing.timed(call, synchroniser(default_device()))


def default_device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
