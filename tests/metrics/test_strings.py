import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import UserError
from clew.metrics.strings import (
    Accuracy,
    ErrorRate,
    alignment_accuracy,
    character_error_rate,
    edit_distance,
    error_rate,
    exact_match,
    word_error_rate,
)


def distance_by_table(a, b):
    above = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        row = [i]
        for j, y in enumerate(b, start=1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (x != y)))
        above = row
    return above[-1]


@pytest.mark.parametrize(
    "a, b, distance",
    [
        ("kitten", "sitting", 3),
        ("intention", "execution", 5),
        ("", "abc", 3),
        ("abc", "", 3),
        ("", "", 0),
        ("ab", "ba", 2),
    ],
)
def test_edits_equal_hand_counted_ones(a, b, distance):
    assert edit_distance(a, b) == distance == edit_distance(list(b), list(a))


units = st.lists(st.integers(0, 3), max_size=80)


@given(units, units)
def test_a_distance_equals_that_of_the_table(a, b):
    assert edit_distance(a, b) == distance_by_table(a, b)


def test_lines_of_ten_thousand_words_can_be_compared():
    words = [random.Random(0).randrange(5000) for _ in range(10_000)]
    changed = ["new" if i % 100 == 7 else word for i, word in enumerate(words) if i % 100 != 50]
    assert edit_distance(words, changed) == 200


def test_error_rates_are_relative_to_the_references_units():
    assert word_error_rate(["the cat  sat", "a"], ["the bat sat down", "a b"]) == ErrorRate(3, 6)
    assert character_error_rate(["ab c"], ["abc"]) == ErrorRate(1, 3)
    assert error_rate([[1, 2]], [[2]]) + ErrorRate(1, 1) == ErrorRate(2, 2)
    assert word_error_rate(["a b c"], ["d"]).value == 3


def test_exact_matches_add_up():
    matches = exact_match(["a", "b "], ["a", "b"]) + exact_match([["x"]], [["x"]])
    assert matches == Accuracy(2, 3)
    assert matches.value == pytest.approx(2 / 3)


def test_an_alignment_is_correct_if_the_largest_weight_is():
    weights = torch.tensor(
        [[[0.1, 0.7, 0.2], [0.5, 0.5, 0.0], [0.3, 0.3, 0.4]], [[0.0, 0.0, 1.0], [0.9, 0.1, 0.0], [0.2, 0.8, 0.0]]]
    )
    places = torch.tensor([[1, 0, 0], [2, 1, -1]])
    assert alignment_accuracy(weights, places) == Accuracy(3, 5)
    mask = torch.tensor([[True, True, False], [True, False, False]])
    assert alignment_accuracy(weights, places, mask) == Accuracy(3, 3)


def test_invalid_inputs_are_rejected():
    for measure in (exact_match, word_error_rate, character_error_rate, error_rate):
        with pytest.raises(UserError, match=r"^there must be as many hypotheses \(1\) as references \(0\)$"):
            measure(["a"], [])
        with pytest.raises(UserError, match=r"^references is one string; give a list of them$"):
            measure(["a"], "a")
        with pytest.raises(UserError, match=r"^hypotheses is one string; give a list of them$"):
            measure("a", ["a"])
    with pytest.raises(UserError, match=r"^nothing was counted, so there is no accuracy; give at least one example$"):
        _ = exact_match([], []).value
    with pytest.raises(
        UserError, match=r"^the references are empty, so there is no error rate; give at least one that is not$"
    ):
        _ = word_error_rate(["a"], [""]).value
    with pytest.raises(UserError) as caught:
        alignment_accuracy(torch.zeros(2, 4, 3, 5), torch.zeros(2, 3))
    assert (
        str(caught.value)
        == "places (2, 3) must be (batch, query) for weights (2, 4, 3, 5) of (batch, query, key); use one head, or the"
        " mean over heads"
    )
