"""Error rates against recorded counts of jiwer 4.0.0, and against the edit distance by its definition."""

from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import UserError
from clew.metrics.error_rates import Edit, Errors, align, character_errors, count_errors, error_interval, word_errors
from clew.metrics.measures import MEASURES, VALUES, measure_name
from clew.metrics.statistics import score
from clew.metrics.strings import edit_distance
from clew.runs.comparison import lower_is_better

# reference, hypothesis; substitutions, deletions, insertions and hits of words, and of characters
JIWER = [
    ("three one four one five", "three one for one nine five", (1, 0, 1, 4), (0, 1, 5, 22)),
    (
        "the quick brown fox jumps over the lazy dog",
        "the quick brown fox jumped over lazy dog",
        (1, 1, 0, 7),
        (1, 4, 1, 38),
    ),
    ("it is easy to recognise speech", "it is easy to wreck a nice beach", (2, 0, 2, 4), (5, 1, 3, 24)),
    ("he said that he would not go", "he said he would not to go", (0, 1, 1, 6), (0, 5, 3, 23)),
    ("a b c a b b a", "c b a b a c", (3, 1, 0, 3), (3, 2, 0, 8)),
    ("naïve café in Zürich", "naive cafe in Zurich", (3, 0, 0, 1), (3, 0, 0, 17)),
    ("one", "", (0, 1, 0, 0), (0, 3, 0, 0)),
    (
        "we went there and back again and there it was",
        "we then went back and there again it was was",
        (4, 1, 1, 5),
        (13, 7, 6, 25),
    ),
]
REFERENCES, HYPOTHESES = [row[0] for row in JIWER], [row[1] for row in JIWER]
WER, CER = 48.97959183673469, 32.195121951219513


def test_the_counts_of_each_sentence_equal_jiwer() -> None:
    assert [astuple(each) for each in word_errors(HYPOTHESES, REFERENCES)] == [row[2] for row in JIWER]
    assert [astuple(each) for each in character_errors(HYPOTHESES, REFERENCES)] == [row[3] for row in JIWER]


def test_the_rate_of_a_corpus_equals_jiwer_and_is_no_mean_of_sentences() -> None:
    words, characters = word_errors(HYPOTHESES, REFERENCES), character_errors(HYPOTHESES, REFERENCES)
    assert 100 * sum(words, Errors()).rate == pytest.approx(WER)
    assert 100 * sum(characters, Errors()).rate == pytest.approx(CER)
    assert np.mean([100 * each.rate for each in words]) != pytest.approx(WER, abs=1)
    measured = MEASURES["wer"].corpus(HYPOTHESES, REFERENCES, False)
    assert measured.values == {"wer": pytest.approx(WER)}
    assert measured.text == "WER 48.98 (14 substituted, 5 deleted, 5 inserted of 49 words)"
    assert MEASURES["cer"].corpus(HYPOTHESES, REFERENCES, False).values == {"cer": pytest.approx(CER)}
    assert (measure_name("wer"), measure_name("cer")) == ("WER", "CER")


units = st.lists(st.sampled_from("abcd"), max_size=12)


@given(units, units)
def test_an_alignment_is_the_shortest_and_names_every_unit_once(reference: list[str], hypothesis: list[str]) -> None:
    edits = align(reference, hypothesis)
    assert [edit.reference for edit in edits if edit.reference is not None] == list(range(len(reference)))
    assert [edit.hypothesis for edit in edits if edit.hypothesis is not None] == list(range(len(hypothesis)))
    for edit in edits:
        same = None not in edit[1:] and reference[edit.reference] == hypothesis[edit.hypothesis]  # type: ignore[index]
        shape = {
            "hit": (True, True),
            "substitution": (True, True),
            "deletion": (True, False),
            "insertion": (False, True),
        }[edit.kind]
        assert (edit.reference is not None, edit.hypothesis is not None) == shape and same == (edit.kind == "hit")
    errors = count_errors(hypothesis, reference)
    assert errors.edits == edit_distance(reference, hypothesis) == definition(reference, hypothesis)
    assert errors.units == len(reference) and errors.hits + errors.substitutions + errors.insertions == len(hypothesis)


def definition(a: list[str], b: list[str]) -> int:
    table = np.zeros((len(a) + 1, len(b) + 1), dtype=int)
    for i in range(len(a) + 1):
        for j in range(len(b) + 1):
            if i == 0 or j == 0:
                table[i, j] = i + j
            else:
                table[i, j] = min(
                    table[i - 1, j] + 1, table[i, j - 1] + 1, table[i - 1, j - 1] + (a[i - 1] != b[j - 1])
                )
    return int(table[-1, -1])


def test_an_alignment_equals_a_hand_computed_one() -> None:
    assert align(["one", "two", "three"], ["one", "too", "two"]) == [
        Edit("hit", 0, 0),
        Edit("insertion", None, 1),
        Edit("hit", 1, 2),
        Edit("deletion", 2, None),
    ]


def test_white_space_is_normalised_and_case_counts() -> None:
    assert sum(character_errors(["  a  b\n"], ["a b"]), Errors()) == Errors(hits=3)
    assert MEASURES["wer"].corpus(["A b"], ["a B"], True).values == {"wer": 0.0}
    assert MEASURES["wer"].corpus(["A b"], ["a B"], False).values == {"wer": 100.0}


def test_insertions_can_exceed_a_rate_of_one_and_an_empty_reference_gives_one() -> None:
    assert count_errors(["a", "b", "c"], ["a"]).rate == 2.0
    assert count_errors(["a"], []).rate == 1.0 and count_errors([], []).rate == 0.0


def test_statistics_are_resampled_as_the_rate_over_all_words() -> None:
    for name in ("wer", "cer"):
        rows = [each[name]["error_rate"] for each in MEASURES[name].statistics(HYPOTHESES, REFERENCES, False)]
        whole = MEASURES[name].corpus(HYPOTHESES, REFERENCES, False).values[name]
        assert score("error_rate", rows) == pytest.approx(whole)
        assert score("error_rate", rows[:3] * 2) == pytest.approx(
            MEASURES[name].corpus(HYPOTHESES[:3], REFERENCES[:3], False).values[name]
        )
        assert VALUES[name] == [] and lower_is_better(f"test.{name}"), "the lowest is best"


def test_the_interval_equals_that_of_all_resamples() -> None:
    """Two sentences of 1 and 9 words, one wrong and one right: a resample has a rate of 1, 0.1 or 0, with 1/4, 1/2 and
    1/4."""
    errors = [Errors(substitutions=1), Errors(hits=9)]
    assert error_interval(errors, level=0.4) == pytest.approx((0.1, 0.1))
    assert error_interval(errors, level=0.95) == pytest.approx((0.0, 1.0))
    with pytest.raises(UserError, match="the bootstrap needs at least one example"):
        error_interval([])


def test_a_hundred_thousand_equal_characters_are_aligned_at_once() -> None:
    text = "a b" * 40_000
    assert count_errors(text + "x", text + "y") == Errors(substitutions=1, hits=120_000)


def test_inputs_that_are_not_lists_of_sentences_are_rejected() -> None:
    with pytest.raises(UserError, match="hypotheses is one string; give a list of them"):
        word_errors("a b", ["a b"])
    with pytest.raises(UserError, match=r"there must be as many hypotheses \(1\) as references \(2\)"):
        character_errors(["a"], ["a", "b"])
