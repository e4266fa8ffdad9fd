"""Recorded ratios by form and workload. New measurements are checked against them for regressions.

    {"cpu-quick": {"factor": 1.5, "ratios": {"lstm-train": {"nn.LSTM": 1.02}}}}

A ratio is a regression if it is more than `factor` times the recorded one. Times are never compared, since they differ
between machines. The two sides of a ratio are measured in the same rounds.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from clew.bench.results import Result
from clew.core.errors import UserError, shown
from clew.core.files import write_text

RECORDED = Path(__file__).parent / "recorded.json"
FACTOR = 1.5


class Recorded(NamedTuple):
    """The recorded ratios of one form."""

    factor: float
    ratios: Mapping[str, Mapping[str, float]]


class Comparison(NamedTuple):
    """A measured ratio and its recorded value."""

    workload: str
    peer: str
    ratio: float
    recorded: float
    factor: float

    @property
    def excess(self) -> float:
        """The ratio over its limit; above 1 is a regression."""
        return self.ratio / (self.recorded * self.factor)

    def __str__(self) -> str:
        return (
            f"{self.workload} takes {self.ratio:.2f} times as long as {self.peer}; the recorded ratio is"
            f" {self.recorded:.2f}, and more than {self.factor:g} times that ({self.recorded * self.factor:.2f}) is a"
            " regression"
        )


def read_recorded(path: Path, form: str) -> Recorded:
    """Read the record of a form from a file."""
    by_form = read_file(path)
    if form not in by_form:
        known_forms = ", ".join(sorted(by_form)) or "nothing"
        raise UserError(
            f"{path.name} has no ratios for {form}, only for {known_forms}; `clew bench --record FILE` measures and"
            " writes them"
        )
    return by_form[form]


def read_file(path: Path) -> dict[str, Recorded]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return {form: recorded_of(each) for form, each in content.items()}
    except (ValueError, TypeError, AttributeError, KeyError):
        raise UserError(f"{path} is not a file of recorded ratios; `clew bench --record FILE` writes one") from None


def recorded_of(content: Any) -> Recorded:
    ratios = {name: {peer: float(value) for peer, value in peers.items()} for name, peers in content["ratios"].items()}
    factor = float(content.get("factor", FACTOR))
    if factor <= 0 or any(value <= 0 for peers in ratios.values() for value in peers.values()):
        raise ValueError(f"ratios and factors must be above 0, not {shown(content)}")
    return Recorded(factor, ratios)


def compare(result: Result, recorded: Recorded) -> list[Comparison]:
    """Compare measurements with every recorded ratio; those with an `excess` above 1 are regressions."""
    recorded_ratios = recorded.ratios.get(result.workload, {})
    ratios = {peer: each.value for peer, each in result.ratios.items() if peer in recorded_ratios}
    return [
        Comparison(result.workload, peer, value, recorded_ratios[peer], recorded.factor)
        for peer, value in ratios.items()
    ]


def regressions(result: Result, recorded: Recorded) -> list[Comparison]:
    return [each for each in compare(result, recorded) if each.excess > 1]


def better(first: Result, second: Result, recorded: Recorded) -> Result:
    """Return the measurement whose worst ratio is lower, so that a machine that was busy once does not count as a
    regression."""
    return min(first, second, key=lambda result: max((each.excess for each in compare(result, recorded)), default=0.0))


def write_recorded(path: Path, results: Iterable[Result]) -> None:
    """Write ratios into a file, keeping those of other forms and workloads."""
    by_form = read_file(path) if path.exists() else {}
    for result in results:
        before = by_form.get(result.form, Recorded(FACTOR, {}))
        ratios = {
            **before.ratios,
            result.workload: {peer: round(each.value, 3) for peer, each in result.ratios.items()},
        }
        by_form[result.form] = Recorded(before.factor, ratios)
    write_text(path, json.dumps({form: each._asdict() for form, each in sorted(by_form.items())}, indent=1) + "\n")
