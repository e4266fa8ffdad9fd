"""The bootstrap (Efron 1979): how a mean over examples, or another statistic, varies when the examples are drawn
again."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from clew.core.errors import UserError

SAMPLES = 10_000
AT_ONCE = 2**22
"""The number of values drawn at once, which bounds the memory for any number of examples."""


TIE = 1e-9
"""Scores that differ by less are equal: sums in another order differ in their last bits."""

Statistic = Callable[[np.ndarray], np.ndarray]
"""Maps how often examples of each kind were drawn (samples, kinds) to one value per sample."""


class Interval(NamedTuple):
    low: float
    high: float

    def times(self, number: float) -> "Interval":
        """The interval in another unit, such as per cent."""
        return Interval(number * self.low, number * self.high)


class Paired(NamedTuple):
    """Two systems on the same examples. `difference` is the first score minus the second."""

    difference: float
    interval: Interval
    p: float


def bootstrap_interval(
    scores: Sequence[float], *, level: float = 0.95, samples: int = SAMPLES, seed: int = 1
) -> Interval:
    """The percentile interval of the scores' mean: it holds `level` of the resamples' means, with equal tails."""
    values = checked(scores)
    check_level(level)
    return percentiles(np.concatenate(list(resampled_means(values, samples, seed))), level)


def statistic_interval(
    statistic: Statistic,
    times: Sequence[int] | np.ndarray,
    *,
    level: float = 0.95,
    samples: int = SAMPLES,
    seed: int = 1,
) -> Interval:
    """The percentile interval of a statistic that is not a mean over examples, such as F1 or a correlation. `times` has
    the number of examples of each kind; examples of one kind are equal for the statistic."""
    counts = np.asarray(times)
    if not counts.sum():
        raise UserError("the bootstrap needs at least one example")
    check_level(level)
    return percentiles(np.concatenate([statistic(drawn) for drawn in resampled_times(counts, samples, seed)]), level)


def paired_bootstrap(
    first: Sequence[float], second: Sequence[float], *, samples: int = SAMPLES, seed: int = 1
) -> Paired:
    """Paired bootstrap resampling (Koehn 2004).

        share = (1 + resamples in which the better system is not better) / (1 + resamples)
        p     = min(1, 2 * share)

    Both systems are scored on the same resample of examples, drawn with replacement. The share is Koehn's, with the
    observed sample counted among the resamples, so that it is never 0; doubling makes it two-sided, like the other
    tests here. Equal means have p = 1. The interval holds 95 % of the resamples' differences.
    """
    values = checked(first) - checked(second, len(first))
    difference = float(values.mean())
    means = np.concatenate(list(resampled_means(values, samples, seed)))
    if difference == 0:
        return Paired(0.0, percentiles(means, 0.95), 1.0)
    # Sums of the same numbers in another order differ in their last bits; such a difference still counts as a tie.
    tie = 1e-12 * max(float(np.abs(values).max()), 1e-300)
    share = (1 + int((means * np.sign(difference) <= tie).sum())) / (1 + samples)
    return Paired(difference, percentiles(means, 0.95), min(1.0, 2 * share))


Score = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Maps statistics (examples, numbers), and how often each example was drawn (samples, examples), to one score per
sample."""

Runs = Sequence[np.ndarray]
"""The statistics (examples, numbers) of each run of a system. The system's score is the mean of its runs' scores."""


def paired_score_bootstrap(first: Runs, second: Runs, score: Score, *, samples: int = SAMPLES, seed: int = 1) -> Paired:
    """Paired bootstrap resampling of a metric that is not a mean over examples: each resample is scored as a corpus of
    its own. Share and p are computed as in `paired_bootstrap`."""
    size = check_runs(first, second)
    difference = float((system_scores(first, score, whole(size)) - system_scores(second, score, whole(size)))[0])
    drawn = np.concatenate(
        [
            system_scores(first, score, times) - system_scores(second, score, times)
            for times in drawn_times(size, samples, seed)
        ]
    )
    if abs(difference) <= TIE:
        return Paired(0.0, percentiles(drawn, 0.95), 1.0)
    share = (1 + int((drawn * np.sign(difference) <= TIE).sum())) / (1 + samples)
    return Paired(difference, percentiles(drawn, 0.95), min(1.0, 2 * share))


def approximate_randomisation(
    first: Runs, second: Runs, score: Score, *, samples: int = SAMPLES, seed: int = 1
) -> float:
    """The p-value of paired approximate randomisation (Noreen 1989; Riezler and Maxwell 2005).

        p = (1 + trials whose |difference| is at least the observed one) / (1 + trials)

    Each trial swaps each example's outputs between the systems with probability 1/2: if the systems are equal, it does
    not matter which of them wrote an output. Two-sided.
    """
    size = check_runs(first, second)
    check_samples(samples)
    times = math.lcm(len(first), len(second))  # pairs the runs, each equally often
    pairs = [np.concatenate([first[i % len(first)], second[i % len(second)]]) for i in range(times)]
    kept = np.concatenate([whole(size), np.zeros((1, size))], axis=1)
    observed = abs(float((system_scores(pairs, score, kept) - system_scores(pairs, score, 1 - kept))[0]))
    generator = np.random.default_rng(seed)
    rows = max(1, AT_ONCE // (2 * size))
    num_extreme = 0
    for start in range(0, samples, rows):
        stays = generator.integers(2, size=(min(rows, samples - start), size)).astype(np.float64)
        unswapped = np.concatenate([stays, 1 - stays], axis=1)
        differences = np.abs(system_scores(pairs, score, unswapped) - system_scores(pairs, score, 1 - unswapped))
        num_extreme += int((differences >= observed - TIE).sum())
    return (1 + num_extreme) / (1 + samples)


def system_scores(runs: Runs, score: Score, times: np.ndarray) -> np.ndarray:
    """The mean over runs of each sample's score."""
    return np.mean([score(statistics, times) for statistics in runs], axis=0)


def check_runs(first: Runs, second: Runs) -> int:
    """The number of examples, which must be the same in every run."""
    sizes = [len(statistics) for statistics in (*first, *second)]
    if not sizes or not sizes[0]:
        raise UserError("the bootstrap needs at least one example")
    if len(set(sizes)) > 1:
        raise UserError(
            f"paired systems are scored on the same examples, but one has {min(sizes)} and another {max(sizes)}"
        )
    return sizes[0]


def whole(size: int) -> np.ndarray:
    """One sample (1, examples) with every example once."""
    return np.ones((1, size))


def drawn_times(size: int, samples: int, seed: int) -> Iterator[np.ndarray]:
    """How often each example is in each resample (samples, examples)."""
    check_samples(samples)
    generator = np.random.default_rng(seed)
    rows = max(1, AT_ONCE // size)
    for start in range(0, samples, rows):
        count = min(rows, samples - start)
        chosen = generator.integers(size, size=(count, size)) + size * np.arange(count)[:, None]
        yield np.bincount(chosen.ravel(), minlength=count * size).reshape(count, size).astype(np.float64)


def resampled_means(values: np.ndarray, samples: int, seed: int) -> Iterator[np.ndarray]:
    check_samples(samples)
    generator = np.random.default_rng(seed)
    rows = max(1, AT_ONCE // len(values))
    for start in range(0, samples, rows):
        chosen = generator.integers(len(values), size=(min(rows, samples - start), len(values)), dtype=np.int32)
        yield values[chosen].mean(axis=1)


def resampled_times(times: np.ndarray, samples: int, seed: int) -> Iterator[np.ndarray]:
    """How often examples of each kind are in each resample (samples, kinds); resamples are as large as the original."""
    # Examples of one kind are interchangeable, so a resample is a multinomial draw over kinds.
    check_samples(samples)
    generator = np.random.default_rng(seed)
    rows = max(1, AT_ONCE // len(times))
    for start in range(0, samples, rows):
        yield generator.multinomial(times.sum(), times / times.sum(), size=min(rows, samples - start))


def check_level(level: float) -> None:
    if not 0 < level < 1:
        raise UserError(f"level ({level}) must be between 0 and 1")


def check_samples(samples: int) -> None:
    if samples < 1:
        raise UserError(f"samples ({samples}) must be at least 1")


def percentiles(means: np.ndarray, level: float) -> Interval:
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high))


def checked(scores: Sequence[float], length: int | None = None) -> np.ndarray:
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1 or len(values) == 0:
        raise UserError("the bootstrap needs at least one example, each with one score")
    if length is not None and len(values) != length:
        raise UserError(
            f"paired systems are scored on the same examples, but one has {length} scores and the other {len(values)}"
        )
    if not np.isfinite(values).all():
        raise UserError(
            f"example {int(np.argmin(np.isfinite(values))) + 1} has a score that is not a finite number; leave it out"
            " of both systems"
        )
    return values
