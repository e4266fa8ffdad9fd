"""What an evaluation found, whatever the task."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from clew.metrics.statistics import Statistics


@dataclass(frozen=True)
class Score:
    """What an evaluation found: measures by name, the value that is to become small, and all of it in words."""

    measures: dict[str, float]
    value: float
    text: str
    examples: dict[str, float] = field(default_factory=dict, repr=False)
    """A number for each example by its id, higher being better, where the data are examples and this is the last evaluation."""
    predictions: dict[str, dict[str, Any]] = field(default_factory=dict, repr=False)
    """Then also each example's source, target and prediction."""
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict, repr=False)
    """And what the bootstrap says of some measures, by name."""
    report: tuple[str, ...] = field(default=(), repr=False)
    """And tables in words: a line a label, which label was taken for which."""
    statistics: Mapping[str, Statistics] = field(default_factory=dict, repr=False)
    """And each example's statistics by its id, of which every measure can be computed."""
    size: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """How much was scored: examples, or tokens and their unit."""

    @property
    def loss(self) -> float:
        return self.measures["loss"]

    def __str__(self) -> str:
        return self.text
