import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.data.syntax.heads import find_cycle, read_heads


def reaches_root(heads, word):
    """Whether walking up from the word ends at the root, by the definition."""
    visited = set()
    while word and word not in visited:
        visited.add(word)
        word = heads[word - 1]
    return word == 0


@given(st.integers(1, 7).flatmap(lambda size: st.lists(st.integers(0, size), min_size=size, max_size=size)))
def test_a_cycle_is_found_exactly_if_some_word_does_not_reach_the_root(heads):
    assert (find_cycle(heads) is None) == all(reaches_root(heads, word) for word in range(1, len(heads) + 1))


def test_a_cycle_is_reported_word_by_word():
    fault = find_cycle([2, 3, 4, 2, 0])
    assert fault is not None
    assert (fault.word, fault.sentence) == (1, "the heads form a cycle: word 2 -> 3 -> 4 -> 2")


def test_a_long_chain_is_checked_in_linear_time():
    size = 200_000
    assert find_cycle([*range(2, size + 1), 0]) is None
    assert find_cycle([*range(2, size + 1), 1]) is not None


def test_blank_heads_are_read_as_none():
    assert read_heads(["_", "_"]) == (None, None)


@pytest.mark.parametrize(
    ("texts", "word", "sentence"),
    [
        (
            ["2", "3"],
            1,
            "the head of word 2 is '3', which is not a word: heads are numbers from 1 to 2, or 0 for the root",
        ),
        (
            ["0", "_"],
            1,
            "the head of word 2 is '_', which is not a word: heads are numbers from 1 to 2, or 0 for the root",
        ),
        (
            ["0", "-1"],
            1,
            "the head of word 2 is '-1', which is not a word: heads are numbers from 1 to 2, or 0 for the root",
        ),
        (
            ["9" * 50],
            0,
            f"the head of word 1 is '{'9' * 50}', which is not a word: heads are numbers from 1 to 1, or 0 for the"
            " root",
        ),
        (["0", "2"], 1, "the heads form a cycle: word 2 -> 2"),
        (
            ["2", "1"],
            0,
            "no word has the head 0, so the sentence has no root (the heads form a cycle: word 1 -> 2 -> 1)",
        ),
    ],
)
def test_faults_are_reported_with_their_word(texts, word, sentence):
    heads, fault = read_heads(texts)
    assert heads is None and fault is not None
    assert (fault.word, fault.sentence) == (word, sentence)


def test_several_roots_are_allowed():
    assert read_heads(["0", "1", "0"]) == ((0, 1, 0), None)
