import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import UserError
from clew.metrics.correlation import correlation_interval, pearson, ranks, spearman

ANSCOMBE = [10, 8, 13, 9, 11, 14, 6, 4, 12, 7, 5], [8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68]
IQ = [106, 100, 86, 101, 99, 103, 97, 113, 112, 110]
HOURS = [7, 27, 2, 50, 28, 29, 20, 12, 6, 17]

few = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=12)


def reference_ranks(values):
    """Ranks counted from 1; equal values get the mean of their ranks."""
    order = sorted(values)
    return [np.mean([place for place, other in enumerate(order, start=1) if other == value]) for value in values]


def reference_pearson(x, y):
    x, y = np.array(x, float) - np.mean(x), np.array(y, float) - np.mean(y)
    spread = np.sqrt((x @ x) * (y @ y))
    return x @ y / spread if spread > 1e-12 else 0.0


def test_published_examples_are_reproduced():
    assert round(pearson(*ANSCOMBE), 5) == 0.81642
    assert spearman(IQ, HOURS) == pytest.approx(-29 / 165)


@given(few)
def test_both_equal_their_definitions_with_ties(pairs):
    x, y = [a for a, _ in pairs], [b for _, b in pairs]
    assert pearson(x, y) == pytest.approx(reference_pearson(x, y), abs=1e-12)
    assert spearman(x, y) == pytest.approx(reference_pearson(reference_ranks(x), reference_ranks(y)), abs=1e-12)


@given(few, st.randoms(use_true_random=False))
def test_ranks_in_a_resample_equal_those_of_its_values(pairs, random):
    values = np.array([a for a, _ in pairs])
    times = np.array([[random.randint(0, 2) for _ in values]])
    expanded = np.repeat(ranks(values, times)[0], times[0])
    np.testing.assert_allclose(expanded, reference_ranks(np.repeat(values, times[0]).tolist()))


def test_spearman_depends_only_on_order():
    assert spearman([1, 2, 3, 4], [1, 10, 100, 1000]) == pytest.approx(1)
    assert spearman([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1)


@pytest.mark.parametrize("constant", [0.0, 0.1, 1e9 + 0.1])
def test_a_constant_has_no_correlation(constant):
    assert pearson([1, 2, 3], [constant] * 3) == 0
    assert spearman([1, 2, 3], [constant] * 3) == 0


def test_a_large_mean_does_not_matter():
    assert pearson([1e8 + x for x in ANSCOMBE[0]], ANSCOMBE[1]) == pytest.approx(0.81642, abs=1e-5)


@pytest.mark.parametrize(("name", "function"), [("pearson", pearson), ("spearman", spearman)])
def test_an_interval_equals_resampling_examples(name, function):
    rng = np.random.default_rng(0)
    x = rng.normal(size=60).round(1)
    y = x + rng.normal(size=60).round(1)
    values = []
    for _ in range(1000):
        places = rng.integers(60, size=60)
        values.append(function(x[places], y[places]))
    np.testing.assert_allclose(correlation_interval(name, x, y), np.quantile(values, [0.025, 0.975]), atol=0.03)


def test_invalid_inputs_are_rejected_with_a_sentence():
    with pytest.raises(
        UserError, match=r"predicted numbers \(1,\) and gold ones \(2,\) must be two lists of the same length"
    ):
        pearson([1, 2], [1])
    with pytest.raises(UserError, match="a correlation needs at least 2 examples, not 1"):
        pearson([1], [1])
    with pytest.raises(UserError, match="a correlation needs finite numbers; leave out the examples with nan or inf"):
        spearman([1, 2], [1, float("nan")])
    with pytest.raises(UserError, match="unknown correlation 'kendall'"):
        correlation_interval("kendall", [1, 2], [1, 2])
