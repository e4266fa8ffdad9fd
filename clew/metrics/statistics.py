"""Metrics as statistics of single examples, and the score of any set of examples from their statistics.

    {"bleu": {"bleu": [17, 18, 12, 7, 4, 2, 17, 16, 15, 14]}, "exact_match": {"share": [0, 1]}}

is what one example has: for each measure a formula, a member of FORMULAS, and the numbers that it needs. Tests and
intervals resample examples and score them from these, so that they resample the metric itself and not a mean of
sentence scores. Scores are in the units of the measures, shares in per cent. Numbers may be by label, {"macro_f1":
{"macro_f1": {"good": [1, 0, 0], "bad": [0, 1, 0]}}}; labels that are not named have zeros.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from clew.core.errors import UserError, unknown
from clew.metrics.agreement import f1s, fraction
from clew.metrics.bootstrap import SAMPLES, Interval, statistic_interval
from clew.metrics.classification import matthews_of_counts, mean_f1
from clew.metrics.correlation import pearsons, spearmans
from clew.metrics.overlap import mean_ious

Row = Sequence[float] | Mapping[str, Sequence[float]]
"""The numbers of one example, or its numbers by label."""

Statistics = dict[str, dict[str, Row]]
"""The statistics of one example, by measure and formula."""

Formula = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Maps statistics (examples, numbers), and how often each example was drawn (samples, examples), to one score per
sample."""

LARGEST_LOSS = 700.0
"""Above this, exp overflows."""


def of_sums(score: Callable[[np.ndarray], np.ndarray]) -> Formula:
    """The formula of a metric whose statistics add; `score` takes their sums (samples, numbers)."""
    return lambda statistics, times: score(times @ statistics)


def bleus(sums: np.ndarray) -> np.ndarray:
    """exp(min(0, 1 - reference / hypothesis)) (p1 p2 p3 p4)^(1/4), from the sums of `Bleu`. The first order without a
    match counts as 1/2 match, the next such order as 1/4, and so on; the score is 0 without any match, or if an order
    has no n-grams."""
    length, reference, matched, whole = sums[:, 0], sums[:, 1], sums[:, 2:6], sums[:, 6:10]
    is_scored = (matched[:, 0] > 0) & (whole > 0).all(1)
    missed = (matched == 0).cumsum(1)
    smoothed = np.where(matched == 0, 1.0 / 2.0**missed, matched)
    precisions = np.divide(smoothed, whole, out=np.ones_like(smoothed), where=whole > 0)
    penalty = np.minimum(0.0, 1 - np.divide(reference, length, out=np.ones_like(length), where=length > 0))
    return np.where(is_scored, 100 * np.exp(penalty + np.log(precisions).mean(1)), 0.0)


def plain_bleus(orders: int) -> Callable[[np.ndarray], np.ndarray]:
    """BLEU of n-grams up to `orders`, 0 if an order has no match, as in the COCO evaluation."""

    def scores(sums: np.ndarray) -> np.ndarray:
        length, reference, matched, whole = sums[:, 0], sums[:, 1], sums[:, 2 : 2 + orders], sums[:, 6 : 6 + orders]
        is_scored = np.asarray((matched > 0).all(1))
        precisions = np.divide(matched, whole, out=np.ones_like(matched), where=is_scored[:, None])
        penalty = np.minimum(0.0, 1 - np.divide(reference, length, out=np.ones_like(length), where=length > 0))
        return np.where(is_scored, 100 * np.exp(penalty + np.log(precisions).mean(1)), 0.0)

    return scores


def chrfs(sums: np.ndarray) -> np.ndarray:
    """5 P R / (4 P + R) from the sums of `Chrf`, with P and R averaged over the orders that both sides have."""
    hypothesis, reference, matched = np.moveaxis(sums.reshape(len(sums), -1, 3), 2, 0)  # each (samples, orders)
    both = (hypothesis > 0) & (reference > 0)
    precision, recall = (
        fraction(np.where(both, fraction(matched, side), 0.0).sum(1), both.sum(1)) for side in (hypothesis, reference)
    )
    return 100 * fraction(5 * precision * recall, 4 * precision + recall)


def ters(sums: np.ndarray) -> np.ndarray:
    """edits / reference words; without reference words, 1 if there are edits."""
    edits, words = sums.T
    return 100 * np.where(words > 0, fraction(edits, words), edits > 0)


def error_rates(sums: np.ndarray) -> np.ndarray:
    """(substituted + deleted + inserted) / reference units; without reference units, 1 if there are edits."""
    edits, units = sums[:, :3].sum(1), sums[:, 3]
    return 100 * np.where(units > 0, fraction(edits, units), edits > 0)


def by_label(score: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    """The score, in per cent, from gold, predicted and matched counts (samples, labels)."""
    return lambda sums: 100 * score(*np.moveaxis(sums.reshape(len(sums), -1, 3), 2, 0))


def calibration_errors(sums: np.ndarray) -> np.ndarray:
    """sum_b |right_b - confidence_b| / count, from a gap and a count per bin."""
    gaps, counts = np.moveaxis(sums.reshape(len(sums), -1, 2), 2, 0)
    return 100 * fraction(np.abs(gaps).sum(1), counts.sum(1))


FORMULAS: dict[str, Formula] = {
    "share": of_sums(lambda sums: 100 * fraction(*sums.T)),
    "mean": of_sums(lambda sums: fraction(*sums.T)),
    "root": of_sums(lambda sums: np.sqrt(fraction(*sums.T))),
    "perplexity": of_sums(lambda sums: np.exp(np.minimum(fraction(*sums.T), LARGEST_LOSS))),
    "f1": of_sums(lambda sums: 100 * f1s(*sums.T)),
    "bleu": of_sums(bleus),
    **{f"bleu_{orders}": of_sums(plain_bleus(orders)) for orders in (1, 2, 3, 4)},
    "chrf": of_sums(chrfs),
    "ter": of_sums(ters),
    "error_rate": of_sums(error_rates),
    "macro_f1": of_sums(by_label(mean_f1)),
    "matthews": of_sums(by_label(matthews_of_counts)),
    "iou": of_sums(by_label(mean_ious)),
    "calibration": of_sums(calibration_errors),
    "pearson": lambda values, times: 100 * pearsons(values[:, 0], values[:, 1], times),
    "spearman": lambda values, times: 100 * spearmans(values[:, 0], values[:, 1], times),
}
"""share, mean, root and perplexity take a sum and its divisor; f1, macro_f1, matthews and iou take gold, predicted and
matched counts; pearson and spearman take a gold and a predicted number."""


def share_of(part: float, whole: float) -> dict[str, Row]:
    """The statistics of a share over all examples together."""
    return {"share": [part, whole]}


def score(formula: str, rows: Sequence[Row]) -> float:
    """The metric over these examples."""
    (values,) = tabulated([rows])
    return float(find_formula(formula)(values, np.ones((1, len(values))))[0])


def metric_interval(
    formula: str, rows: Sequence[Row], *, level: float = 0.95, samples: int = SAMPLES, seed: int = 1
) -> Interval:
    """The bootstrap interval of the metric over these examples."""
    (values,) = tabulated([rows])
    function = find_formula(formula)
    times = np.ones(len(values), np.int64)
    return statistic_interval(lambda drawn: function(values, drawn), times, level=level, samples=samples, seed=seed)


def find_formula(name: str) -> Formula:
    if name not in FORMULAS:
        raise unknown("formula", name, FORMULAS)
    return FORMULAS[name]


def tabulated(systems: Sequence[Sequence[Row]]) -> list[np.ndarray]:
    """Each system's statistics (examples, numbers), with labels in the same columns for all systems."""
    rows = [row for system in systems for row in system]
    if not rows:
        raise UserError("the bootstrap needs at least one example")
    if not any(isinstance(row, Mapping) for row in rows):
        return [checked(system) for system in systems]
    labels = sorted({label for row in rows if isinstance(row, Mapping) for label in row}) or [""]
    widths = [len(numbers) for row in rows if isinstance(row, Mapping) for numbers in row.values()]
    zeros = [0.0] * max(widths, default=3)
    dense = [
        [
            [number for label in labels for number in row.get(label, zeros)] if isinstance(row, Mapping) else row
            for row in system
        ]
        for system in systems
    ]
    return [checked(system) for system in dense]


def checked(rows: Sequence[Row]) -> np.ndarray:
    try:
        values = np.array(rows, dtype=np.float64)
    except (ValueError, TypeError):
        values = np.empty(0)
    if values.ndim != 2 or not np.isfinite(values).all():
        raise UserError("statistics must be finite numbers, the same count for every example; leave out the others")
    return values
