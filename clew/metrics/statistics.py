"""A metric as statistics of single examples, and the score of any collection of examples by their statistics.

    {"bleu": {"bleu": [17, 18, 12, 7, 4, 2, 17, 16, 15, 14]}, "exact_match": {"share": [0, 1]}}

is what one example has: for each measure the formula, a member of FORMULAS, and the numbers that it is computed from. Tests and intervals
draw examples and score them by these, so that they resample the metric itself and not a mean of sentence scores. Scores are in the units
of the measures, shares in per cent. Numbers by label, {"macro_f1": {"macro_f1": {"good": [1, 0, 0], "bad": [0, 1, 0]}}}, stand for 0 at all
labels that are not named.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from clew.core.errors import UserError, unknown
from clew.metrics.agreement import f1s, shares
from clew.metrics.bootstrap import SAMPLES, Interval, statistic_interval
from clew.metrics.classification import matthews_of_counts, mean_f1
from clew.metrics.correlation import pearsons, spearmans
from clew.metrics.overlap import mean_ious

Row = Sequence[float] | Mapping[str, Sequence[float]]
"""The numbers of one example; or such by label."""

Statistics = dict[str, dict[str, Row]]
"""Of one example, by measure and formula."""

Formula = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""From statistics (examples, numbers) and how often each example was drawn (samples, examples), a score a sample."""

LARGEST_LOSS = 700.0
"""Above it exp is infinite."""


def of_sums(score: Callable[[np.ndarray], np.ndarray]) -> Formula:
    """The formula of a metric whose statistics add: `score` is of their sums (samples, numbers)."""
    return lambda statistics, times: score(times @ statistics)


def bleus(sums: np.ndarray) -> np.ndarray:
    """exp(min(0, 1 - reference / hypothesis)) (p1 p2 p3 p4)^(1/4) of sums as `Bleu` counts them. An order without a match counts as half of
    one, the next such order as a quarter, and so on; without any match, or where an order has no n-gram, it is 0."""
    length, reference, matched, whole = sums[:, 0], sums[:, 1], sums[:, 2:6], sums[:, 6:10]
    is_scored = (matched[:, 0] > 0) & (whole > 0).all(1)
    missed = (matched == 0).cumsum(1)
    smoothed = np.where(matched == 0, 1.0 / 2.0**missed, matched)
    precisions = np.divide(smoothed, whole, out=np.ones_like(smoothed), where=whole > 0)
    penalty = np.minimum(0.0, 1 - np.divide(reference, length, out=np.ones_like(length), where=length > 0))
    return np.where(is_scored, 100 * np.exp(penalty + np.log(precisions).mean(1)), 0.0)


def plain_bleus(orders: int) -> Callable[[np.ndarray], np.ndarray]:
    """BLEU of n-grams up to so many words, and 0 where an order has no match, as the COCO evaluation computes it."""

    def scores(sums: np.ndarray) -> np.ndarray:
        length, reference, matched, whole = sums[:, 0], sums[:, 1], sums[:, 2 : 2 + orders], sums[:, 6 : 6 + orders]
        is_scored = np.asarray((matched > 0).all(1))
        precisions = np.divide(matched, whole, out=np.ones_like(matched), where=is_scored[:, None])
        penalty = np.minimum(0.0, 1 - np.divide(reference, length, out=np.ones_like(length), where=length > 0))
        return np.where(is_scored, 100 * np.exp(penalty + np.log(precisions).mean(1)), 0.0)

    return scores


def chrfs(sums: np.ndarray) -> np.ndarray:
    """5 P R / (4 P + R) of sums as `Chrf` counts them, P and R averaged over the orders that both sides have."""
    hypothesis, reference, matched = np.moveaxis(sums.reshape(len(sums), -1, 3), 2, 0)  # each (samples, orders)
    both = (hypothesis > 0) & (reference > 0)
    precision, recall = (shares(np.where(both, shares(matched, side), 0.0).sum(1), both.sum(1)) for side in (hypothesis, reference))
    return 100 * shares(5 * precision * recall, 4 * precision + recall)


def ters(sums: np.ndarray) -> np.ndarray:
    """edits / reference words; without reference words 1 where there are edits."""
    edits, words = sums.T
    return 100 * np.where(words > 0, shares(edits, words), edits > 0)


def error_rates(sums: np.ndarray) -> np.ndarray:
    """(substituted + deleted + inserted) / reference units; without such units 1 where there are edits."""
    edits, units = sums[:, :3].sum(1), sums[:, 3]
    return 100 * np.where(units > 0, shares(edits, units), edits > 0)


def by_label(score: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    """The score, in per cent, of gold, predicted and matched (samples, labels)."""
    return lambda sums: 100 * score(*np.moveaxis(sums.reshape(len(sums), -1, 3), 2, 0))


def calibration_errors(sums: np.ndarray) -> np.ndarray:
    """sum_b |right_b - confidence_b| / count, of a gap and a count by bin."""
    gaps, counts = np.moveaxis(sums.reshape(len(sums), -1, 2), 2, 0)
    return 100 * shares(np.abs(gaps).sum(1), counts.sum(1))


FORMULAS: dict[str, Formula] = {
    "share": of_sums(lambda sums: 100 * shares(*sums.T)),
    "mean": of_sums(lambda sums: shares(*sums.T)),
    "root": of_sums(lambda sums: np.sqrt(shares(*sums.T))),
    "perplexity": of_sums(lambda sums: np.exp(np.minimum(shares(*sums.T), LARGEST_LOSS))),
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
"""share, mean, root and perplexity are of a sum and what it is divided by; f1, macro_f1, matthews and iou of gold, predicted and matched;
pearson and spearman of a gold and a predicted number."""


def share_of(part: float, whole: float) -> dict[str, Row]:
    """The statistics of a share of all examples together."""
    return {"share": [part, whole]}


def score(formula: str, rows: Sequence[Row]) -> float:
    """The metric of these examples."""
    (values,) = tabulated([rows])
    return float(find_formula(formula)(values, np.ones((1, len(values))))[0])


def metric_interval(formula: str, rows: Sequence[Row], *, level: float = 0.95, samples: int = SAMPLES, seed: int = 1) -> Interval:
    """The bootstrap's interval of the metric of these examples."""
    (values,) = tabulated([rows])
    function = find_formula(formula)
    times = np.ones(len(values), np.int64)
    return statistic_interval(lambda drawn: function(values, drawn), times, level=level, samples=samples, seed=seed)


def find_formula(name: str) -> Formula:
    if name not in FORMULAS:
        raise unknown("formula", name, FORMULAS)
    return FORMULAS[name]


def tabulated(systems: Sequence[Sequence[Row]]) -> list[np.ndarray]:
    """Each system's statistics (examples, numbers), labels in the same columns for all of them."""
    rows = [row for system in systems for row in system]
    if not rows:
        raise UserError("the bootstrap needs at least one example")
    if not any(isinstance(row, Mapping) for row in rows):
        return [checked(system) for system in systems]
    labels = sorted({label for row in rows if isinstance(row, Mapping) for label in row}) or [""]
    widths = [len(numbers) for row in rows if isinstance(row, Mapping) for numbers in row.values()]
    nothing = [0.0] * max(widths, default=3)
    dense = [
        [[number for label in labels for number in row.get(label, nothing)] if isinstance(row, Mapping) else row for row in system]
        for system in systems
    ]
    return [checked(system) for system in dense]


def checked(rows: Sequence[Row]) -> np.ndarray:
    try:
        values = np.array(rows, dtype=np.float64)
    except (ValueError, TypeError):
        values = np.empty(0)
    if values.ndim != 2 or not np.isfinite(values).all():
        raise UserError("every example has as many statistics as the others, all of them finite numbers")
    return values
