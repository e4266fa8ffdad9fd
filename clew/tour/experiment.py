"""An experiment of the tour: a common claim, and the result of testing it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from clew.drawing.views import View

Scale = Literal["quick", "tour", "full"]
"""How long an experiment trains: `quick`, seconds, as a smoke test; `tour`, minutes; `full`, as long as its claim
needs."""
Report = Callable[[str], None]
"""A function that receives progress messages, one line each."""


@dataclass(frozen=True)
class Finding:
    """A claim with its source, the result (`measured`), which may or may not confirm the claim, a view, and table rows
    (quantity, claimed value, measured value)."""

    title: str
    claim: str
    measured: str
    view: View
    rows: Sequence[tuple[str, str, str]]
    seconds: float = 0.0


class Experiment(NamedTuple):
    about: str
    run: Callable[[Scale, int, Report], Finding]
    """run(scale, seed, report)"""
