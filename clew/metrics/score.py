"""The result of an evaluation, for any task."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from clew.metrics.statistics import Statistics


@dataclass(frozen=True)
class Score:
    """The result of an evaluation: measures by name, the value to minimise, and a description."""

    measures: dict[str, float]
    value: float
    text: str
    examples: dict[str, float] = field(default_factory=dict, repr=False)
    """A number for each example by its id, higher being better, for data of examples in a final evaluation."""
    predictions: dict[str, dict[str, Any]] = field(default_factory=dict, repr=False)
    """Each example's source, target and prediction, in the same case."""
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict, repr=False)
    """Bootstrap intervals of some measures, by name."""
    report: tuple[str, ...] = field(default=(), repr=False)
    """Text tables, such as scores per label and the confusion matrix."""
    statistics: Mapping[str, Statistics] = field(default_factory=dict, repr=False)
    """Each example's statistics by its id, from which every measure can be computed."""
    size: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The amount of data: examples, or tokens with their unit."""

    @property
    def loss(self) -> float:
        return self.measures["loss"]

    def __str__(self) -> str:
        return self.text
