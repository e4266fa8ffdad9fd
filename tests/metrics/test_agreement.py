import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import UserError
from clew.metrics.agreement import Agreement, f1_interval, share_interval

agreements = st.builds(Agreement, st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))


def test_precision_recall_and_f1_equal_hand_computed_ones():
    counts = Agreement(gold=4, predicted=6, matched=3)
    assert (counts.precision, counts.recall, counts.f1) == (0.5, 0.75, pytest.approx(0.6))
    assert counts.describe() == "F1 60.00, precision 50.00, recall 75.00"


def test_a_ratio_with_zero_denominator_is_0():
    assert (Agreement().precision, Agreement().recall, Agreement().f1) == (0, 0, 0)


@given(st.lists(agreements, min_size=1))
def test_parts_add(parts):
    whole = sum(parts, Agreement())
    for count in ("gold", "predicted", "matched"):
        assert getattr(whole, count) == sum(getattr(part, count) for part in parts)


def test_an_interval_is_of_the_overall_f1_not_of_a_mean_of_f1s():
    """If all parts are equal, the interval has no width."""
    assert f1_interval([Agreement(2, 2, 1)] * 20) == (0.5, 0.5)
    low, high = f1_interval([Agreement(10, 10, 10), Agreement(1, 1, 0)] * 50)
    assert low < Agreement(11, 11, 10).f1 < high
    assert low > 0.85 and high < 0.96


def test_the_interval_of_a_ratio_resamples_whole_examples():
    assert share_interval([1, 2], [2, 4]) == (0.5, 0.5)
    parts = [Agreement(10, 10, 10), Agreement(1, 1, 0)] * 50
    assert share_interval(
        [2 * part.matched for part in parts], [part.gold + part.predicted for part in parts]
    ) == f1_interval(parts)
    words, sentences = share_interval([1, 0] * 200, [1, 1] * 200), share_interval([20, 0] * 10, [20, 20] * 10)
    assert sentences.high - sentences.low > 3 * (
        words.high - words.low
    )  # words of one sentence are right or wrong together


def test_nothing_has_no_interval():
    with pytest.raises(UserError, match="the bootstrap needs at least one example"):
        f1_interval([])
