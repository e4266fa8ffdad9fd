"""Segmentation scores of cells or pixels: the intersection over union of each label, from counts that add.

    iou(label) = matched / (gold + predicted - matched)

Matched cells have the label in both. The mean is over labels that are gold or predicted at least once, unweighted
(Everingham et al. 2010).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clew.metrics.agreement import fraction


@dataclass(frozen=True)
class Overlap:
    """For each label the number of cells that have it in gold, as predicted, and in both."""

    """Of each label how many cells have it in gold, how many as predicted, and how many in both."""

    labels: tuple[str, ...]
    gold: np.ndarray
    predicted: np.ndarray
    matched: np.ndarray

    def __add__(self, other: "Overlap") -> "Overlap":
        assert self.labels == other.labels
        return Overlap(
            self.labels, self.gold + other.gold, self.predicted + other.predicted, self.matched + other.matched
        )

    @property
    def union(self) -> np.ndarray:
        union: np.ndarray = self.gold + self.predicted - self.matched
        return union

    @property
    def by_label(self) -> dict[str, float]:
        """The intersection over union of each label that occurs."""
        values = fraction(self.matched, self.union).tolist()
        return {
            label: value for label, value, occurs in zip(self.labels, values, self.union > 0, strict=True) if occurs
        }

    @property
    def mean(self) -> float:
        return float(mean_ious(self.gold[None], self.predicted[None], self.matched[None])[0])

    def counts(self) -> dict[str, list[float]]:
        """The numbers of gold, predicted and matched cells of each label that occurs."""
        rows = np.stack([self.gold, self.predicted, self.matched], 1).tolist()
        return {label: row for label, row, occurs in zip(self.labels, rows, self.union > 0, strict=True) if occurs}

    def describe(self) -> str:
        """One line per label."""
        head = f"{'label':20} {'IoU':>6} {'gold':>10} {'predicted':>10}"
        numbers = {
            label: (int(gold), int(predicted))
            for label, gold, predicted in zip(self.labels, self.gold, self.predicted, strict=True)
        }
        lines = [
            f"{label:20} {100 * value:6.2f} {numbers[label][0]:>10,} {numbers[label][1]:>10,}"
            for label, value in self.by_label.items()
        ]
        return "\n".join([head, *lines])


def count_overlap(gold: np.ndarray, predicted: np.ndarray, labels: Sequence[str]) -> Overlap:
    """Counts from arrays of label numbers of equal shape; a gold number below 0 is ignored, like a label outside of
    `labels`."""
    counts = [
        np.bincount(numbers, minlength=len(labels)) for numbers in (gold[gold >= 0], predicted, gold[gold == predicted])
    ]
    return Overlap(tuple(labels), *counts)


def mean_ious(gold: np.ndarray, predicted: np.ndarray, matched: np.ndarray) -> np.ndarray:
    """The mean over labels that occur, from counts (samples, labels); 0 if none does."""
    union = gold + predicted - matched
    return fraction(fraction(matched, union).sum(1), (union > 0).sum(1))
