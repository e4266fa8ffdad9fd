"""What an experiment of the tour is: a claim that is often made, and what comes out when it is tried."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from clew.drawing.views import View

Scale = Literal["quick", "tour", "full"]
"""How long an experiment trains: seconds, to see that it runs; part of a few minutes; as long as its claim needs."""
Report = Callable[[str], None]
"""Told what is being done, a line at a time."""


@dataclass(frozen=True)
class Finding:
    """A claim with its source, what was found of it in numbers, whichever way it fell, the picture, and rows for a table: what was
    measured, what is claimed, what was found."""

    title: str
    claim: str
    found: str
    view: View
    rows: Sequence[tuple[str, str, str]]
    seconds: float = 0.0


class Experiment(NamedTuple):
    about: str
    run: Callable[[Scale, int, Report], Finding]
    """From (scale, seed, report)."""
