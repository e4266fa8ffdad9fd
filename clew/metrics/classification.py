"""How well labels agree with gold ones: one a text (`Confusion`), or any number of them (`LabelSets`). Counts that add.

Shares are between 0 and 1; a share of nothing is 0. Means over labels are over those that are gold or predicted somewhere.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clew.core.errors import UserError, counted, unknown
from clew.metrics.agreement import Agreement, distinct_rows, f1s, shares
from clew.metrics.bootstrap import SAMPLES, Interval, statistic_interval


@dataclass(frozen=True)
class Confusion:
    """How often each label was taken for each other: `counts[gold][predicted]`."""

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
        """The share that is right. Micro-averaged precision, recall and F1 are the same number, where each text has one label."""
        return self.value("accuracy")

    @property
    def macro_f1(self) -> float:
        """The mean of the labels' F1, each label counting the same."""
        return self.value("macro_f1")

    @property
    def matthews(self) -> float:
        return self.value("matthews")

    @property
    def by_label(self) -> dict[str, Agreement]:
        """Precision, recall and F1 of each label; its support is `gold`."""
        gold, predicted, matched = label_counts(self.array).tolist()
        return {label: Agreement(*counts) for label, *counts in zip(self.labels, gold, predicted, matched, strict=True)}

    def value(self, name: str, label: str | None = None) -> float:
        """A member of CONFUSION_STATISTICS; or `f1`, which is one label's."""
        statistic = self.statistic(name, label)
        return float(statistic(self.array))

    def interval(self, name: str, label: str | None = None, *, level: float = 0.95, samples: int = SAMPLES, seed: int = 1) -> Interval:
        """The bootstrap's interval of what `value` gives. Texts in one cell of the table are all the same to it."""
        statistic, size = self.statistic(name, label), len(self.labels)
        return statistic_interval(
            lambda drawn: statistic(drawn.reshape(-1, size, size)), self.array.ravel(), level=level, samples=samples, seed=seed
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
        """The scores in per cent, then a line a label."""
        scores = f"accuracy {100 * self.accuracy:.2f}, macro F1 {100 * self.macro_f1:.2f}, Matthews {self.matthews:.3f}"
        return "\n".join([f"{scores}, {counted(self.total, 'example')}", report(self.by_label)])

    def table(self) -> str:
        """The counts, a row a gold label and a column a predicted one."""
        cells = [
            ["gold \\ predicted", *self.labels],
            *([label, *map(str, row)] for label, row in zip(self.labels, self.counts, strict=True)),
        ]
        return aligned(cells)


@dataclass(frozen=True)
class LabelSets:
    """How sets of labels agree: for each label in how many texts it was gold, predicted and both, and how many sets are wholly right."""

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
        """The share of texts with just their gold labels."""
        return float(shares(self.exact, self.total))

    @property
    def accuracy(self) -> float:
        """The share of decisions, one a text and label, that are right."""
        whole = sum(self.agreements, Agreement())
        decisions = self.total * len(self.labels)
        return float(shares(decisions - whole.gold - whole.predicted + 2 * whole.matched, decisions))

    @property
    def micro_f1(self) -> float:
        """The F1 of all decisions together."""
        return sum(self.agreements, Agreement()).f1

    @property
    def macro_f1(self) -> float:
        """The mean of the labels' F1, each label counting the same."""
        return float(mean_f1(*np.array([(a.gold, a.predicted, a.matched) for a in self.agreements]).reshape(-1, 3).T))

    def describe(self) -> str:
        scores = (
            f"micro F1 {100 * self.micro_f1:.2f}, macro F1 {100 * self.macro_f1:.2f}, exact match {100 * self.exact_match:.2f}, "
            f"accuracy {100 * self.accuracy:.2f}, {counted(self.total, 'example')}"
        )
        return "\n".join([scores, report(self.by_label)])


def count_confusion(gold: Sequence[str], predicted: Sequence[str], labels: Sequence[str]) -> Confusion:
    """Each text's gold label and the predicted one, both among `labels`."""
    check_as_many(gold, predicted)
    places = {label: place for place, label in enumerate(labels)}
    rows, columns = (find_places(given, places) for given in (gold, predicted))
    counts = np.bincount(np.array(rows, dtype=np.int64) * len(labels) + np.array(columns, dtype=np.int64), minlength=len(labels) ** 2)
    return Confusion(tuple(labels), as_rows(counts.reshape(len(labels), len(labels))))


def count_label_sets(gold: Sequence[Collection[str]], predicted: Sequence[Collection[str]], labels: Sequence[str]) -> LabelSets:
    """Each text's gold labels and the predicted ones, all among `labels`."""
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
    """The bootstrap's intervals of `micro_f1`, `macro_f1` and `exact_match`."""
    kinds, times = distinct_rows(label_set_rows(gold, predicted, labels))

    def counts(drawn: np.ndarray) -> np.ndarray:
        return np.moveaxis((drawn @ kinds[:, :-1]).reshape(len(drawn), 3, -1), 1, 0)  # gold, predicted, matched; sample; label

    statistics: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "micro_f1": lambda drawn: f1s(*counts(drawn).sum(2)),
        "macro_f1": lambda drawn: mean_f1(*counts(drawn)),
        "exact_match": lambda drawn: drawn @ kinds[:, -1] / drawn.sum(1),
    }
    return {name: statistic_interval(statistic, times, level=level, samples=samples, seed=seed) for name, statistic in statistics.items()}


def label_set_rows(gold: Sequence[Collection[str]], predicted: Sequence[Collection[str]], labels: Sequence[str]) -> np.ndarray:
    """A row a text: for each label whether it is gold, predicted, both; and whether all are right."""
    check_as_many(gold, predicted)
    places = {label: place for place, label in enumerate(labels)}
    sets = np.zeros((2, len(gold), len(labels)), dtype=np.int64)
    for which, given in enumerate((gold, predicted)):
        for text, those in enumerate(given):
            sets[which, text, find_places(list(those), places)] = 1
    return np.concatenate([*sets, sets[0] & sets[1], (sets[0] == sets[1]).all(1, keepdims=True)], axis=1)


def accuracies(matrices: np.ndarray) -> np.ndarray:
    """Of tables (..., gold, predicted)."""
    return shares(np.trace(matrices, axis1=-2, axis2=-1), matrices.sum((-2, -1)))


def macro_f1s(matrices: np.ndarray) -> np.ndarray:
    return mean_f1(*label_counts(matrices))


def matthews_correlations(matrices: np.ndarray) -> np.ndarray:
    """Matthews' correlation (1975), for any number of labels (Gorodkin 2004).

        (s c - sum_k p_k g_k) / sqrt((s^2 - sum_k p_k^2) (s^2 - sum_k g_k^2))

    s texts, c of them right, label k predicted p_k times and gold g_k times. 0 where only one label is gold, or predicted.
    """
    return matthews_of_counts(*label_counts(matrices.astype(np.float64)))


def matthews_of_counts(gold: np.ndarray, predicted: np.ndarray, matched: np.ndarray) -> np.ndarray:
    """The same, of how often each label (..., labels) was gold, predicted and both."""
    texts = gold.sum(-1)
    covariance = texts * matched.sum(-1) - (gold * predicted).sum(-1)
    spread = np.sqrt((texts**2 - (predicted**2).sum(-1)) * (texts**2 - (gold**2).sum(-1)))
    return shares(covariance, spread)


def label_counts(matrices: np.ndarray) -> np.ndarray:
    """Gold, predicted and matched (3, ..., labels)."""
    return np.stack([matrices.sum(-1), matrices.sum(-2), np.diagonal(matrices, axis1=-2, axis2=-1)])


def mean_f1(gold: np.ndarray, predicted: np.ndarray, matched: np.ndarray) -> np.ndarray:
    """Over the last axis, of labels that are there."""
    return shares(f1s(gold, predicted, matched).sum(-1), (gold + predicted > 0).sum(-1))


def report(by_label: dict[str, Agreement]) -> str:
    """Precision, recall and F1 in per cent, and the support, a line a label."""
    rows = [
        [label, *(f"{100 * share:.2f}" for share in (counts.precision, counts.recall, counts.f1)), str(counts.gold)]
        for label, counts in by_label.items()
    ]
    return aligned([["label", "precision", "recall", "F1", "support"], *rows])


def aligned(cells: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell; the first begins and the others end together."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(cell.rjust(width) if place else cell.ljust(width) for place, (cell, width) in enumerate(zip(row, widths, strict=True)))
        for row in cells
    )


def find_places(given: Sequence[str], places: dict[str, int]) -> list[int]:
    for label in given:
        if label not in places:
            raise unknown("label", label, places)
    return [places[label] for label in given]


def check_as_many(gold: Sequence[Any], predicted: Sequence[Any]) -> None:
    if len(gold) != len(predicted):
        raise UserError(f"predicted labels ({len(predicted)}) must be as many as gold ones ({len(gold)})")


def check_same(labels: tuple[str, ...], others: tuple[str, ...]) -> None:
    if labels != others:
        raise UserError(f"counts of different labels cannot be added: {', '.join(labels)} and {', '.join(others)}")


def as_rows(matrix: np.ndarray) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(row) for row in matrix.tolist())


MatrixStatistic = Callable[[np.ndarray], np.ndarray]

CONFUSION_STATISTICS: dict[str, MatrixStatistic] = {
    "accuracy": accuracies,
    "macro_f1": macro_f1s,
    "matthews": matthews_correlations,
}
