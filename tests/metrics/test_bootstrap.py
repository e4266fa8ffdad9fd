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
    """The means of all n^n resamples, each as likely as any other."""
    return [fmean(chosen) for chosen in itertools.product(values, repeat=len(values))]


@pytest.mark.parametrize("values", DIFFERENCES)
def test_the_share_of_resamples_is_that_of_all_there_are(values: list[float]) -> None:
    """Within five standard errors of 40,000 draws."""
    exact = fmean(mean <= 1e-12 for mean in enumerated(values))
    second = [7.0, -2.0, 0.3, 11.0, 5.0][: len(values)]
    first = [a + b for a, b in zip(values, second, strict=True)]
    found = paired_bootstrap(first, second, samples=40_000)
    assert found.difference == pytest.approx(fmean(values))
    assert found.p == pytest.approx(min(1.0, 2 * exact), abs=2 * 5 * math.sqrt(exact * (1 - exact) / 40_000) + 1e-4)


def test_a_case_worked_by_hand() -> None:
    """Won by 3 and lost by 1: of the four resamples (3, 3), (3, -1), (-1, 3), (-1, -1) one has the better system not
    ahead."""
    found = paired_bootstrap([3.0, 0.0], [0.0, 1.0], samples=100_000)
    assert found.difference == 1.0
    assert found.p == pytest.approx(2 * 1 / 4, abs=0.01)
    assert found.interval == (-1.0, 3.0)


def test_which_system_comes_first_turns_the_sign_alone() -> None:
    first, second = [0.3, 0.9, 0.4, 0.8], [0.2, 0.7, 0.6, 0.1]
    one, other = paired_bootstrap(first, second), paired_bootstrap(second, first)
    assert (one.difference, one.p) == (pytest.approx(-other.difference), other.p)
    assert one.interval == pytest.approx((-other.interval.high, -other.interval.low))


def test_equal_systems_do_not_differ() -> None:
    assert paired_bootstrap([0.1, 0.2, 0.7], [0.1, 0.2, 0.7]).p == 1.0
    assert paired_bootstrap([0.1, 0.2], [0.2, 0.1]).p == 1.0


def test_a_system_that_wins_everywhere_differs_as_surely_as_the_resamples_can_say() -> None:
    assert paired_bootstrap([1.0] * 50, [0.0] * 50, samples=999).p == pytest.approx(2 / 1000)


def test_a_seed_decides_and_memory_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = np.random.default_rng(0).normal(size=30)
    zeros = np.zeros(30)
    assert paired_bootstrap(scores, zeros, seed=3) == paired_bootstrap(scores, zeros, seed=3)
    assert paired_bootstrap(scores, zeros, seed=3).interval != paired_bootstrap(scores, zeros, seed=4).interval
    whole = bootstrap_interval(scores, samples=1001)
    monkeypatch.setattr(bootstrap, "AT_ONCE", 64)
    assert bootstrap_interval(scores, samples=1001) == whole


def test_the_interval_of_a_mean_is_that_of_all_resamples() -> None:
    values = [1.0, 2.0, 4.0, 8.0, 16.0]
    low, high = np.quantile(enumerated(values), [0.05, 0.95])
    assert bootstrap_interval(values, level=0.9, samples=60_000) == pytest.approx((low, high), abs=0.21)


def test_the_interval_of_normal_scores_is_the_one_of_theory() -> None:
    scores = np.random.default_rng(5).normal(3.0, 2.0, size=2000)
    found = bootstrap_interval(scores)
    error = 1.96 * scores.std(ddof=1) / math.sqrt(2000)
    assert found == pytest.approx((scores.mean() - error, scores.mean() + error), abs=0.01)


def test_one_example_has_no_spread() -> None:
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
def test_what_cannot_be_paired_is_refused(arguments: tuple, options: dict, sentence: str) -> None:
    with pytest.raises(UserError) as error:
        paired_bootstrap(*arguments, **options)
    assert str(error.value) == sentence


def test_a_level_that_is_none_is_refused() -> None:
    with pytest.raises(UserError, match=r"level \(1.0\) must be between 0 and 1"):
        bootstrap_interval([1.0, 2.0], level=1.0)


def test_a_mean_as_a_statistic_has_the_interval_of_a_mean():
    scores = [0.0] * 30 + [1.0] * 70
    found = statistic_interval(lambda drawn: drawn @ np.array([0.0, 1.0]) / drawn.sum(1), [30, 70])
    np.testing.assert_allclose(found, bootstrap_interval(scores), atol=0.011)
    assert found == statistic_interval(lambda drawn: drawn @ np.array([0.0, 1.0]) / drawn.sum(1), [30, 70])


def test_a_statistic_needs_an_example():
    with pytest.raises(UserError, match="the bootstrap needs at least one example"):
        statistic_interval(lambda drawn: drawn[:, 0], [0, 0])
    with pytest.raises(UserError, match=r"level \(1.5\) must be between 0 and 1"):
        statistic_interval(lambda drawn: drawn[:, 0], [1], level=1.5)
