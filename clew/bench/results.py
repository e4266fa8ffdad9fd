"""The results of a workload, and their representation in JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clew.bench.profiling import KernelTime
from clew.bench.roofline import Roofline
from clew.bench.timing import Ratio, Timing, ratio
from clew.bench.workload import OURS, Cost


@dataclass(frozen=True)
class SideResult:
    """The times of one side, and on CUDA its peak memory in bytes."""

    timing: Timing
    memory: int | None = None


@dataclass(frozen=True)
class Result:
    workload: str
    sizes: str
    form: str
    tokens: int
    sides: dict[str, SideResult]
    """The results by side; ours is first."""
    cost: Cost | None = None
    roofline: Roofline | None = None
    notes: Sequence[str] = ()
    profiles: Mapping[str, Sequence[KernelTime]] = field(default_factory=dict)
    """Profiles by side, if requested."""

    @property
    def ratios(self) -> dict[str, Ratio]:
        """Our time over each peer's, by peer."""
        ours = self.sides[OURS].timing
        return {name: ratio(ours, side.timing) for name, side in self.sides.items() if name != OURS}

    @property
    def floor(self) -> float | None:
        """A lower bound of the time of a call on this machine, in seconds."""
        return None if self.cost is None or self.roofline is None else self.roofline.floor(self.cost)

    def share(self, side: str) -> float | None:
        """Return the share of the machine's speed that a side reaches: the lower bound over its time."""
        return None if self.floor is None else self.floor / self.sides[side].timing.median

    def record(self) -> dict[str, Any]:
        """Return the result as a JSON object."""
        sides = [self.side_record(name) for name in self.sides]
        peers = [
            {"peer": name, "ratio": each.value, "low": each.low, "high": each.high}
            for name, each in self.ratios.items()
        ]
        record: dict[str, Any] = {
            "workload": self.workload,
            "sizes": self.sizes,
            "form": self.form,
            "tokens": self.tokens,
        }
        record |= {"sides": sides, "ratios": peers}
        if self.cost is not None and self.roofline is not None:
            rates = {"flops_per_second": self.roofline.flops, "bytes_per_second": self.roofline.bandwidth}
            record["roofline"] = {**self.cost._asdict(), **rates, "floor": self.floor}
        if self.profiles:
            record["profiles"] = {name: [each._asdict() for each in spent] for name, spent in self.profiles.items()}
        return {**record, "notes": list(self.notes)}

    def side_record(self, name: str) -> dict[str, Any]:
        side = self.sides[name]
        low, high = side.timing.quartiles
        times = {"median": side.timing.median, "low": low, "high": high, "rounds": len(side.timing.seconds)}
        more = {
            "tokens_per_second": self.tokens / side.timing.median,
            "memory": side.memory,
            "share_of_floor": self.share(name),
        }
        return {"side": name, **times, **more}
