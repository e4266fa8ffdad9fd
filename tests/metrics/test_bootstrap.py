import itertools
import math
from statistics import fmean

import numpy as np
import pytest

from clew.core.errors import UserError
from clew.metrics import bootstrap
from clew.metrics.bootstrap import bootstrap_interval, paired_bootstrap, statistic_interval

DIFFERENCES = [[1.0, 2.0, -1.5], [3.0, -1.0, -1.0, 0.5], [0.1, 0.2, -0.3, 0.4, 0.5], [1.0, -1.0, 0.25]]


def enumerated(values: list[float]) -> list[float]:
    """The means of all n^n equally likely resamples."""
    return [fmean(chosen) for chosen in itertools.product(values, repeat=len(values))]


@pytest.mark.parametrize("values", DIFFERENCES)
def test_p_equals_the_fraction_of_all_resamples(values: list[float]) -> None:
    """Within five standard errors of 40,000 samples."""
    exact = fmean(mean <= 1e-12 for mean in enumerated(values))
    second = [7.0, -2.0, 0.3, 11.0, 5.0][: len(values)]
    first = [a + b for a, b in zip(values, second, strict=True)]
    comparison = paired_bootstrap(first, second, samples=40_000)
    assert comparison.difference == pytest.approx(fmean(values))
    assert comparison.p == pytest.approx(
        min(1.0, 2 * exact), abs=2 * 5 * math.sqrt(exact * (1 - exact) / 40_000) + 1e-4
    )


def test_p_equals_a_hand_computed_one() -> None:
    """Differences 3 and -1: in one of the four resamples (3, 3), (3, -1), (-1, 3), (-1, -1) the better system is not
    ahead."""
    comparison = paired_bootstrap([3.0, 0.0], [0.0, 1.0], samples=100_000)
    assert comparison.difference == 1.0
    assert comparison.p == pytest.approx(2 * 1 / 4, abs=0.01)
    assert comparison.interval == (-1.0, 3.0)


def test_the_order_of_systems_changes_only_the_sign() -> None:
    first, second = [0.3, 0.9, 0.4, 0.8], [0.2, 0.7, 0.6, 0.1]
    forward, backward = paired_bootstrap(first, second), paired_bootstrap(second, first)
    assert (forward.difference, forward.p) == (pytest.approx(-backward.difference), backward.p)
    assert forward.interval == pytest.approx((-backward.interval.high, -backward.interval.low))


def test_equal_systems_have_no_significant_difference() -> None:
    assert paired_bootstrap([0.1, 0.2, 0.7], [0.1, 0.2, 0.7]).p == 1.0
    assert paired_bootstrap([0.1, 0.2], [0.2, 0.1]).p == 1.0


def test_a_system_that_always_wins_has_the_smallest_possible_p() -> None:
    assert paired_bootstrap([1.0] * 50, [0.0] * 50, samples=999).p == pytest.approx(2 / 1000)


def test_results_depend_on_the_seed_and_not_on_the_chunk_size(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = np.random.default_rng(0).normal(size=30)
    zeros = np.zeros(30)
    assert paired_bootstrap(scores, zeros, seed=3) == paired_bootstrap(scores, zeros, seed=3)
    assert paired_bootstrap(scores, zeros, seed=3).interval != paired_bootstrap(scores, zeros, seed=4).interval
    whole = bootstrap_interval(scores, samples=1001)
    monkeypatch.setattr(bootstrap, "AT_ONCE", 64)
    assert bootstrap_interval(scores, samples=1001) == whole


def test_the_interval_of_a_mean_equals_that_of_all_resamples() -> None:
    values = [1.0, 2.0, 4.0, 8.0, 16.0]
    low, high = np.quantile(enumerated(values), [0.05, 0.95])
    assert bootstrap_interval(values, level=0.9, samples=60_000) == pytest.approx((low, high), abs=0.21)


def test_the_interval_of_normal_scores_equals_the_theoretical_one() -> None:
    scores = np.random.default_rng(5).normal(3.0, 2.0, size=2000)
    interval = bootstrap_interval(scores)
    error = 1.96 * scores.std(ddof=1) / math.sqrt(2000)
    assert interval == pytest.approx((scores.mean() - error, scores.mean() + error), abs=0.01)


def test_one_example_gives_an_interval_of_zero_width() -> None:
    assert bootstrap_interval([2.5]) == (2.5, 2.5)


@pytest.mark.parametrize(
    ("arguments", "options", "sentence"),
    [
        (([], []), {}, "the bootstrap needs at least one example, each with one score"),
        (
            ([1.0], [1.0, 2.0]),
            {},
            "paired systems are scored on the same examples, but one has 1 scores and the other 2",
        ),
        (
            ([1.0, math.nan], [1.0, 2.0]),
            {},
            "example 2 has a score that is not a finite number; leave it out of both systems",
        ),
        (([1.0], [2.0]), {"samples": 0}, "samples (0) must be at least 1"),
    ],
)
def test_scores_that_cannot_be_paired_are_rejected(arguments: tuple, options: dict, sentence: str) -> None:
    with pytest.raises(UserError) as error:
        paired_bootstrap(*arguments, **options)
    assert str(error.value) == sentence


def test_invalid_levels_are_rejected() -> None:
    with pytest.raises(UserError, match=r"level \(1.0\) must be between 0 and 1"):
        bootstrap_interval([1.0, 2.0], level=1.0)


def test_a_mean_as_a_statistic_has_the_interval_of_a_mean():
    scores = [0.0] * 30 + [1.0] * 70
    interval = statistic_interval(lambda drawn: drawn @ np.array([0.0, 1.0]) / drawn.sum(1), [30, 70])
    np.testing.assert_allclose(interval, bootstrap_interval(scores), atol=0.011)
    assert interval == statistic_interval(lambda drawn: drawn @ np.array([0.0, 1.0]) / drawn.sum(1), [30, 70])


def test_a_statistic_needs_an_example():
    with pytest.raises(UserError, match="the bootstrap needs at least one example"):
        statistic_interval(lambda drawn: drawn[:, 0], [0, 0])
    with pytest.raises(UserError, match=r"level \(1.5\) must be between 0 and 1"):
        statistic_interval(lambda drawn: drawn[:, 0], [1], level=1.5)
