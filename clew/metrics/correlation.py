"""Correlation of predicted with gold numbers: Pearson's and Spearman's, between -1 and 1; 0 if either side is constant.

Both need all examples together: ranks do not add, so predictions are gathered from all processes first.
"""

from collections.abc import Callable, Sequence

import numpy as np

from clew.core.errors import UserError, unknown
from clew.metrics.bootstrap import Interval, statistic_interval

SAMPLES = 2_000


def pearson(gold: Sequence[float], predicted: Sequence[float]) -> float:
    """r = sum (x - mean x) (y - mean y) / sqrt(sum (x - mean x)^2 sum (y - mean y)^2)"""
    return correlation("pearson", gold, predicted)


def spearman(gold: Sequence[float], predicted: Sequence[float]) -> float:
    """Pearson's correlation of the ranks (Spearman 1904); ties share the mean of their ranks."""
    return correlation("spearman", gold, predicted)


def correlation(name: str, gold: Sequence[float], predicted: Sequence[float]) -> float:
    x, y = checked(gold, predicted)
    return float(find(name)(x, y, np.ones((1, len(x))))[0])


def correlation_interval(
    name: str,
    gold: Sequence[float],
    predicted: Sequence[float],
    *,
    level: float = 0.95,
    samples: int = SAMPLES,
    seed: int = 1,
) -> Interval:
    """The bootstrap interval of a member of CORRELATIONS; ranks are computed again in each resample."""
    x, y = checked(gold, predicted)
    function = find(name)
    return statistic_interval(
        lambda drawn: function(x, y, drawn), np.ones(len(x), np.int64), level=level, samples=samples, seed=seed
    )


def pearsons(x: np.ndarray, y: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Pearson's r of each resample, which has example j `times[sample, j]` times; x and y are (examples,) or (samples,
    examples)."""
    total = times.sum(1, keepdims=True)
    size_x, size_y = (times * x * x).sum(1), (times * y * y).sum(1)
    x, y = (values - (times * values).sum(1, keepdims=True) / total for values in (x, y))
    spread_x, spread_y = (times * x * x).sum(1), (times * y * y).sum(1)
    # A constant minus its mean leaves rounding errors, which must not count as spread.
    varied = (spread_x > 1e-24 * size_x) & (spread_y > 1e-24 * size_y)
    return np.divide((times * x * y).sum(1), np.sqrt(spread_x * spread_y), out=np.zeros(len(times)), where=varied)


def spearmans(x: np.ndarray, y: np.ndarray, times: np.ndarray) -> np.ndarray:
    return pearsons(ranks(x, times), ranks(y, times), times)


def ranks(values: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Each example's rank (samples, examples) in each resample: the number of smaller values, plus the middle of its
    ties."""
    order = values.argsort(kind="stable")
    _, starts, place = np.unique(values[order], return_index=True, return_inverse=True)
    num_tied = np.add.reduceat(times[:, order], starts, axis=1)  # (samples, different values)
    rank_of = np.empty(times.shape)
    rank_of[:, order] = (num_tied.cumsum(1) - num_tied + (num_tied + 1) / 2)[:, place]
    return rank_of


def checked(gold: Sequence[float], predicted: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.asarray(gold, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
    if x.ndim != 1 or x.shape != y.shape:
        raise UserError(f"predicted numbers {y.shape} and gold ones {x.shape} must be two lists of the same length")
    if len(x) < 2:
        raise UserError(f"a correlation needs at least 2 examples, not {len(x)}")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise UserError("a correlation needs finite numbers; leave out the examples with nan or inf")
    return x, y


def find(name: str) -> Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]:
    if name not in CORRELATIONS:
        raise unknown("correlation", name, CORRELATIONS)
    return CORRELATIONS[name]


CORRELATIONS = {"pearson": pearsons, "spearman": spearmans}
