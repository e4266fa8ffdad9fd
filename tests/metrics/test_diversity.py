import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import UserError
from clew.metrics.diversity import distinct, repetition


def test_distinct_counts_over_all_samples_together():
    samples = [["a", "b", "a"], ["a", "b", "c"]]
    assert distinct(samples, 1) == 3 / 6
    assert distinct(samples, 2) == 3 / 4  # ab ba | ab bc


def test_repetition_counts_within_each_sample():
    samples = [["a", "b", "a", "b", "a"], ["a", "b", "c"]]
    assert repetition(samples, 1) == pytest.approx(3 / 8)
    assert repetition(samples, 2) == pytest.approx(2 / 6)  # ab ba ab ba | ab bc
    assert repetition([[7, 7, 7, 7]], 2) == pytest.approx(2 / 3)


def test_too_short_samples_are_ignored():
    assert distinct([["a"], ["a", "b"]], 2) == 1
    assert repetition([["a"], ["a", "b"]], 2) == 0


@given(st.lists(st.integers(0, 3), min_size=4), st.integers(1, 4))
def test_for_one_sample_distinct_and_repetition_sum_to_one(sample, n):
    assert distinct([sample], n) + repetition([sample], n) == pytest.approx(1)


@pytest.mark.parametrize("measure", [distinct, repetition])
def test_texts_without_n_grams_and_invalid_n_are_rejected(measure):
    with pytest.raises(
        UserError, match="no sample has 3 tokens, so there are no 3-grams to count; give longer samples or a smaller n"
    ):
        measure([["a", "b"]], 3)
    with pytest.raises(UserError, match=r"n \(0\) must be at least 1"):
        measure([["a"]], 0)
