"""Classification scores, from counts that add: one label per text (`Confusion`), or any number of labels (`LabelSets`).

Ratios are between 0 and 1; a ratio whose denominator is 0 is 0. Means over labels include the labels that are gold or
predicted at least once.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clew.core.errors import UserError, counted, unknown
from clew.metrics.agreement import Agreement, distinct_rows, f1s, fraction
from clew.metrics.bootstrap import SAMPLES, Interval, statistic_interval


@dataclass(frozen=True)
class Confusion:
    """The confusion matrix: `counts[gold][predicted]`."""

    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]

    def __add__(self, other: "Confusion") -> "Confusion":
        check_same(self.labels, other.labels)
        return Confusion(self.labels, as_rows(self.array + other.array))

    @property
    def array(self) -> np.ndarray:
        return np.array(self.counts, dtype=np.int64).reshape(len(self.labels), len(self.labels))

    @property
    def total(self) -> int:
        return int(self.array.sum())

    @property
    def accuracy(self) -> float:
        """The share of right predictions. With one label per text it equals micro-averaged precision, recall and F1."""
        return self.value("accuracy")

    @property
    def macro_f1(self) -> float:
        """The unweighted mean of the labels' F1."""
        return self.value("macro_f1")

    @property
    def matthews(self) -> float:
        return self.value("matthews")

    @property
    def by_label(self) -> dict[str, Agreement]:
        """Precision, recall and F1 of each label; the support is `gold`."""
        gold, predicted, matched = label_counts(self.array).tolist()
        return {label: Agreement(*counts) for label, *counts in zip(self.labels, gold, predicted, matched, strict=True)}

    def value(self, name: str, label: str | None = None) -> float:
        """The value of a member of CONFUSION_STATISTICS, or the `f1` of one label."""
        statistic = self.statistic(name, label)
        return float(statistic(self.array))

    def interval(
        self, name: str, label: str | None = None, *, level: float = 0.95, samples: int = SAMPLES, seed: int = 1
    ) -> Interval:
        """The bootstrap interval of `value`. Texts in the same cell of the matrix are equal for it."""
        statistic, size = self.statistic(name, label), len(self.labels)
        return statistic_interval(
            lambda drawn: statistic(drawn.reshape(-1, size, size)),
            self.array.ravel(),
            level=level,
            samples=samples,
            seed=seed,
        )

    def statistic(self, name: str, label: str | None = None) -> "MatrixStatistic":
        if name != "f1" and name not in CONFUSION_STATISTICS:
            raise unknown("measure", name, [*CONFUSION_STATISTICS, "f1"])
        if not self.total:
            raise UserError("nothing was counted, so there is no score; give at least one example")
        if name == "f1":
            (place,) = find_places([str(label)], {known: place for place, known in enumerate(self.labels)})
            return lambda matrices: f1s(*label_counts(matrices))[..., place]
        return CONFUSION_STATISTICS[name]

    def describe(self) -> str:
        """The scores in per cent, then one line per label."""
        scores = f"accuracy {100 * self.accuracy:.2f}, macro F1 {100 * self.macro_f1:.2f}, Matthews {self.matthews:.3f}"
        return "\n".join([f"{scores}, {counted(self.total, 'example')}", report(self.by_label)])

    def table(self) -> str:
        """The counts, with a row per gold label and a column per predicted label."""
        cells = [
            ["gold \\ predicted", *self.labels],
            *([label, *map(str, row)] for label, row in zip(self.labels, self.counts, strict=True)),
        ]
        return aligned(cells)


@dataclass(frozen=True)
class LabelSets:
    """Agreement of label sets: for each label the number of texts where it is gold, predicted and both; and the number
    of exact sets."""

    labels: tuple[str, ...]
    agreements: tuple[Agreement, ...]
    exact: int
    total: int

    def __add__(self, other: "LabelSets") -> "LabelSets":
        check_same(self.labels, other.labels)
        agreements = tuple(a + b for a, b in zip(self.agreements, other.agreements, strict=True))
        return LabelSets(self.labels, agreements, self.exact + other.exact, self.total + other.total)

    @property
    def by_label(self) -> dict[str, Agreement]:
        return dict(zip(self.labels, self.agreements, strict=True))

    @property
    def exact_match(self) -> float:
        """The share of texts with exactly their gold labels."""
        return float(fraction(self.exact, self.total))

    @property
    def accuracy(self) -> float:
        """The share of right decisions, one for each text and label."""
        whole = sum(self.agreements, Agreement())
        decisions = self.total * len(self.labels)
        return float(fraction(decisions - whole.gold - whole.predicted + 2 * whole.matched, decisions))

    @property
    def micro_f1(self) -> float:
        """The F1 of all decisions together."""
        return sum(self.agreements, Agreement()).f1

    @property
    def macro_f1(self) -> float:
        """The unweighted mean of the labels' F1."""
        return float(mean_f1(*np.array([(a.gold, a.predicted, a.matched) for a in self.agreements]).reshape(-1, 3).T))

    def describe(self) -> str:
        scores = (
            f"micro F1 {100 * self.micro_f1:.2f}, macro F1 {100 * self.macro_f1:.2f}, exact match"
            f" {100 * self.exact_match:.2f}, accuracy {100 * self.accuracy:.2f}, {counted(self.total, 'example')}"
        )
        return "\n".join([scores, report(self.by_label)])


def count_confusion(gold: Sequence[str], predicted: Sequence[str], labels: Sequence[str]) -> Confusion:
    """Counts each text's gold and predicted label, both among `labels`."""
    check_as_many(gold, predicted)
    places = {label: place for place, label in enumerate(labels)}
    rows, columns = (find_places(side, places) for side in (gold, predicted))
    counts = np.bincount(
        np.array(rows, dtype=np.int64) * len(labels) + np.array(columns, dtype=np.int64), minlength=len(labels) ** 2
    )
    return Confusion(tuple(labels), as_rows(counts.reshape(len(labels), len(labels))))


def count_label_sets(
    gold: Sequence[Collection[str]], predicted: Sequence[Collection[str]], labels: Sequence[str]
) -> LabelSets:
    """Counts each text's gold and predicted labels, all among `labels`."""
    rows = label_set_rows(gold, predicted, labels)
    agreements = tuple(Agreement(*counts) for counts in rows[:, :-1].sum(0).reshape(3, -1).T.tolist())
    return LabelSets(tuple(labels), agreements, int(rows[:, -1].sum()), len(rows))


def label_set_intervals(
    gold: Sequence[Collection[str]],
    predicted: Sequence[Collection[str]],
    labels: Sequence[str],
    *,
    level: float = 0.95,
    samples: int = SAMPLES,
    seed: int = 1,
) -> dict[str, Interval]:
    """The bootstrap intervals of `micro_f1`, `macro_f1` and `exact_match`."""
    kinds, times = distinct_rows(label_set_rows(gold, predicted, labels))

    def counts(drawn: np.ndarray) -> np.ndarray:
        # (gold, predicted or matched; sample; label)
        return np.moveaxis((drawn @ kinds[:, :-1]).reshape(len(drawn), 3, -1), 1, 0)

    statistics: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "micro_f1": lambda drawn: f1s(*counts(drawn).sum(2)),
        "macro_f1": lambda drawn: mean_f1(*counts(drawn)),
        "exact_match": lambda drawn: drawn @ kinds[:, -1] / drawn.sum(1),
    }
    return {
        name: statistic_interval(statistic, times, level=level, samples=samples, seed=seed)
        for name, statistic in statistics.items()
    }


def label_set_rows(
    gold: Sequence[Collection[str]], predicted: Sequence[Collection[str]], labels: Sequence[str]
) -> np.ndarray:
    """One row per text: for each label whether it is gold, predicted and both, and finally whether the sets are
    equal."""
    check_as_many(gold, predicted)
    places = {label: place for place, label in enumerate(labels)}
    sets = np.zeros((2, len(gold), len(labels)), dtype=np.int64)
    for side, label_sets in enumerate((gold, predicted)):
        for text, label_set in enumerate(label_sets):
            sets[side, text, find_places(list(label_set), places)] = 1
    return np.concatenate([*sets, sets[0] & sets[1], (sets[0] == sets[1]).all(1, keepdims=True)], axis=1)


def accuracies(matrices: np.ndarray) -> np.ndarray:
    """The accuracy of confusion matrices (..., gold, predicted)."""
    return fraction(np.trace(matrices, axis1=-2, axis2=-1), matrices.sum((-2, -1)))


def macro_f1s(matrices: np.ndarray) -> np.ndarray:
    return mean_f1(*label_counts(matrices))


def matthews_correlations(matrices: np.ndarray) -> np.ndarray:
    """Matthews' correlation (1975), for any number of labels (Gorodkin 2004).

        (s c - sum_k p_k g_k) / sqrt((s^2 - sum_k p_k^2) (s^2 - sum_k g_k^2))

    s texts, c of them right; label k is predicted p_k times and gold g_k times. 0 if only one label is gold, or
    predicted.
    """
    return matthews_of_counts(*label_counts(matrices.astype(np.float64)))


def matthews_of_counts(gold: np.ndarray, predicted: np.ndarray, matched: np.ndarray) -> np.ndarray:
    """The same, from the numbers of times that each label (..., labels) is gold, predicted and both."""
    texts = gold.sum(-1)
    covariance = texts * matched.sum(-1) - (gold * predicted).sum(-1)
    spread = np.sqrt((texts**2 - (predicted**2).sum(-1)) * (texts**2 - (gold**2).sum(-1)))
    return fraction(covariance, spread)


def label_counts(matrices: np.ndarray) -> np.ndarray:
    """Gold, predicted and matched (3, ..., labels)."""
    return np.stack([matrices.sum(-1), matrices.sum(-2), np.diagonal(matrices, axis1=-2, axis2=-1)])


def mean_f1(gold: np.ndarray, predicted: np.ndarray, matched: np.ndarray) -> np.ndarray:
    """The mean over the last axis, of labels that are gold or predicted."""
    return fraction(f1s(gold, predicted, matched).sum(-1), (gold + predicted > 0).sum(-1))


def report(by_label: dict[str, Agreement]) -> str:
    """One line per label: precision, recall and F1 in per cent, and the support."""
    rows = [
        [label, *(f"{100 * share:.2f}" for share in (counts.precision, counts.recall, counts.f1)), str(counts.gold)]
        for label, counts in by_label.items()
    ]
    return aligned([["label", "precision", "recall", "F1", "support"], *rows])


def aligned(cells: Sequence[Sequence[str]]) -> str:
    """A text table: columns as wide as their widest cell, the first left-aligned, the others right-aligned."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    )


def find_places(labels: Sequence[str], places: dict[str, int]) -> list[int]:
    for label in labels:
        if label not in places:
            raise unknown("label", label, places)
    return [places[label] for label in labels]


def check_as_many(gold: Sequence[Any], predicted: Sequence[Any]) -> None:
    if len(gold) != len(predicted):
        raise UserError(f"there must be as many predicted labels ({len(predicted)}) as gold ones ({len(gold)})")


def check_same(labels: tuple[str, ...], other_labels: tuple[str, ...]) -> None:
    if labels != other_labels:
        raise UserError(
            f"counts of different labels cannot be added: {', '.join(labels)} and {', '.join(other_labels)}"
        )


def as_rows(matrix: np.ndarray) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(row) for row in matrix.tolist())


MatrixStatistic = Callable[[np.ndarray], np.ndarray]

CONFUSION_STATISTICS: dict[str, MatrixStatistic] = {
    "accuracy": accuracies,
    "macro_f1": macro_f1s,
    "matthews": matthews_correlations,
}
