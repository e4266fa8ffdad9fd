"""How well cells or pixels of pictures are labelled: the intersection over union of each label. Counts that add.

    iou(label) = matched / (gold + predicted - matched)

Matched cells have the label in both. The mean is over labels that are gold or predicted
somewhere, each counting the same (Everingham et al. 2010).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clew.metrics.agreement import shares


@dataclass(frozen=True)
class Overlap:
    """Of each label how many cells have it in gold, how many as predicted, and how many in both."""

    labels: tuple[str, ...]
    gold: np.ndarray
    predicted: np.ndarray
    matched: np.ndarray

    def __add__(self, other: "Overlap") -> "Overlap":
        assert self.labels == other.labels
        return Overlap(self.labels, self.gold + other.gold, self.predicted + other.predicted, self.matched + other.matched)

    @property
    def union(self) -> np.ndarray:
        union: np.ndarray = self.gold + self.predicted - self.matched
        return union

    @property
    def by_label(self) -> dict[str, float]:
        """The intersection over union of each label that is somewhere."""
        values = shares(self.matched, self.union).tolist()
        return {label: value for label, value, there in zip(self.labels, values, self.union > 0, strict=True) if there}

    @property
    def mean(self) -> float:
        return float(mean_ious(self.gold[None], self.predicted[None], self.matched[None])[0])

    def counts(self) -> dict[str, list[float]]:
        """Gold, predicted and matched of each label that is somewhere."""
        rows = np.stack([self.gold, self.predicted, self.matched], 1).tolist()
        return {label: row for label, row, there in zip(self.labels, rows, self.union > 0, strict=True) if there}

    def describe(self) -> str:
        """A line a label."""
        head = f"{'label':20} {'IoU':>6} {'gold':>10} {'predicted':>10}"
        numbers = {label: (int(gold), int(told)) for label, gold, told in zip(self.labels, self.gold, self.predicted, strict=True)}
        lines = [
            f"{label:20} {100 * value:6.2f} {numbers[label][0]:>10,} {numbers[label][1]:>10,}" for label, value in self.by_label.items()
        ]
        return "\n".join([head, *lines])


def count_overlap(gold: np.ndarray, predicted: np.ndarray, labels: Sequence[str]) -> Overlap:
    """From numbers of labels, of as many cells each; a gold number below 0 is a label that is none of these."""
    counts = [np.bincount(each, minlength=len(labels)) for each in (gold[gold >= 0], predicted, gold[gold == predicted])]
    return Overlap(tuple(labels), *counts)


def mean_ious(gold: np.ndarray, predicted: np.ndarray, matched: np.ndarray) -> np.ndarray:
    """The mean over labels that are somewhere, from counts (samples, labels); 0 where none is."""
    union = gold + predicted - matched
    return shares(shares(matched, union).sum(1), (union > 0).sum(1))
