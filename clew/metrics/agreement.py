"""Precision, recall and F1 from counts that add.

    precision = matched / predicted      recall = matched / gold      F1 = 2 matched / (gold + predicted)

A ratio whose denominator is 0 is 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clew.metrics.bootstrap import SAMPLES, Interval, statistic_interval


@dataclass(frozen=True)
class Agreement:
    """The numbers of gold items, of predicted items, and of predicted items that are right."""

    gold: int = 0
    predicted: int = 0
    matched: int = 0

    def __add__(self, other: "Agreement") -> "Agreement":
        return Agreement(self.gold + other.gold, self.predicted + other.predicted, self.matched + other.matched)

    @property
    def precision(self) -> float:
        return float(fraction(self.matched, self.predicted))

    @property
    def recall(self) -> float:
        return float(fraction(self.matched, self.gold))

    @property
    def f1(self) -> float:
        return float(f1s(self.gold, self.predicted, self.matched))

    def describe(self) -> str:
        return f"F1 {100 * self.f1:.2f}, precision {100 * self.precision:.2f}, recall {100 * self.recall:.2f}"


def f1_interval(parts: Sequence[Agreement], *, level: float = 0.95, samples: int = SAMPLES, seed: int = 1) -> Interval:
    """The bootstrap interval of the F1 of all parts together. A part is one example: a sentence, a text."""
    kinds, times = distinct_rows([(part.gold, part.predicted, part.matched) for part in parts])
    return statistic_interval(lambda drawn: f1s(*(drawn @ kinds).T), times, level=level, samples=samples, seed=seed)


def share_interval(
    parts: Sequence[int], wholes: Sequence[int], *, level: float = 0.95, samples: int = SAMPLES, seed: int = 1
) -> Interval:
    """The bootstrap interval of sum(parts) / sum(wholes). Each example has a part and a whole, such as the number of
    right words of a sentence and the number of all its words."""
    kinds, times = distinct_rows(list(zip(parts, wholes, strict=True)))
    return statistic_interval(
        lambda drawn: fraction(*(drawn @ kinds).T), times, level=level, samples=samples, seed=seed
    )


def distinct_rows(rows: Sequence[Sequence[int]] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows (kinds, columns), and the number of times that each occurs (kinds,)."""
    return np.unique(np.asarray(rows), axis=0, return_counts=True)


def f1s(gold: np.ndarray | int, predicted: np.ndarray | int, matched: np.ndarray | int) -> np.ndarray:
    return fraction(2 * np.asarray(matched), np.asarray(gold) + np.asarray(predicted))


def fraction(part: np.ndarray | int, whole: np.ndarray | int) -> np.ndarray:
    part, whole = np.asarray(part, dtype=np.float64), np.asarray(whole, dtype=np.float64)
    return np.divide(part, whole, out=np.zeros(np.broadcast_shapes(part.shape, whole.shape)), where=whole > 0)
