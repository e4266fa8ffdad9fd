import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import UserError
from clew.metrics.rouge import (
    MeanOverlap,
    Overlap,
    Rouge,
    common_length,
    common_places,
    rouge,
    rouge_l,
    rouge_l_summary,
    rouge_n,
)

POLICE = ["police", "killed", "the", "gunman"]


def test_the_example_sentences_of_lins_paper_are_reproduced():
    # Both share 3 words and the pair "the gunman" with "police killed the gunman"; only the longest subsequence
    # distinguishes them.
    kill, gunman = ["police", "kill", "the", "gunman"], ["the", "gunman", "kill", "police"]
    assert rouge_n(kill, [POLICE], 1) == rouge_n(gunman, [POLICE], 1) == Overlap(3, 4, 4)
    assert rouge_n(kill, [POLICE], 2) == rouge_n(gunman, [POLICE], 2) == Overlap(1, 3, 3)
    assert rouge_l(kill, [POLICE]).f1 == pytest.approx(3 / 4)
    assert rouge_l(gunman, [POLICE]).f1 == pytest.approx(2 / 4)


def test_precision_and_recall_divide_by_the_candidate_and_the_reference():
    # a a a b against a a c: the two a in both; pairs "a a" twice against once.
    result = rouge_n(list("aaab"), [list("aac")], 1)
    assert (result.precision, result.recall, result.f1) == (2 / 4, 2 / 3, 4 / 7)
    assert rouge_n(list("aaab"), [list("aac")], 2) == Overlap(1, 3, 2)


def test_the_best_of_several_references_counts():
    assert rouge_n(POLICE, [["no", "one"], ["police", "killed"], ["the", "police"]], 2) == Overlap(1, 3, 1)
    assert rouge_l(list("abcd"), [list("abcdefgh"), list("abxx")]) == Overlap(4, 4, 8)


def test_the_union_example_of_lins_paper_is_reproduced():
    # w1 w2 is the longest subsequence with the first sentence, w1 w3 w5 with the second: 4 of the 5 words.
    reference, first, second = (
        ["w1", "w2", "w3", "w4", "w5"],
        ["w1", "w2", "w6", "w7", "w8"],
        ["w1", "w3", "w8", "w9", "w5"],
    )
    assert common_places(reference, first) == {0, 1}
    assert common_places(reference, second) == {0, 2, 4}
    assert rouge_l_summary([first, second], [[reference]]) == Overlap(4, 10, 5)


def test_a_word_counts_at_most_as_often_as_it_occurs_in_both_texts():
    assert rouge_l_summary([["a"]], [[["a"], ["a"]]]) == Overlap(1, 1, 2)
    assert rouge_l_summary([["a"], ["a"]], [[["a"]]]) == Overlap(1, 2, 1)
    assert rouge_l_summary([["a", "b"], ["c"]], [[["c"], ["a", "b"]]]) == Overlap(3, 3, 3)


def test_texts_are_split_into_lines_and_lower_case_words():
    score = rouge(["The cat's mat.\nNo_one, naïve!"], ["no one NAÏVE\nthe cat s mat"])
    assert score.one.f1 == score.summary.f1 == 1
    assert score.two.f1 == pytest.approx(5 / 6)  # all but "mat no" against "naïve the"
    assert score.longest.f1 == pytest.approx(4 / 7)
    assert score.describe() == "ROUGE-1 100.00, ROUGE-2 83.33, ROUGE-L 57.14, ROUGE-Lsum 100.00"


def test_the_score_of_a_corpus_is_the_mean_of_its_summaries_and_parts_add():
    whole = rouge(["a b", "c"], ["a", ["d", "c"]])
    assert whole.one == MeanOverlap(1 / 2 + 1, 1 + 1, 2 / 3 + 1, 2)
    assert whole.one.precision == 0.75
    assert whole.one.recall == 1
    assert whole.one.f1 == pytest.approx(5 / 6)
    assert rouge(["a b"], ["a"]) + rouge(["c"], [["d", "c"]]) == whole == whole + rouge([], [])


def test_an_empty_summary_scores_zero():
    for score in (rouge([""], ["a"]), rouge(["a"], [""]), rouge([""], [""])):
        assert score.one.f1 == score.two.f1 == score.longest.f1 == score.summary.f1 == 0
        assert score.one.precision == score.one.recall == 0


def longest_common(a, b):
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            table[i + 1][j + 1] = table[i][j] + 1 if x == y else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


words = st.lists(st.sampled_from("abc"), max_size=9)


@given(words, words)
def test_the_longest_common_subsequence_equals_that_of_the_table(a, b):
    assert common_length(a, b) == longest_common(a, b) == len(common_places(a, b))
    remaining = iter(b)
    assert all(word in remaining for word in (a[place] for place in sorted(common_places(a, b))))


def test_invalid_inputs_are_rejected():
    with pytest.raises(UserError, match=r"^there must be as many candidates \(1\) as references \(0\)$"):
        rouge(["a"], [])
    with pytest.raises(UserError, match=r"^candidates is one string; give a list of texts$"):
        rouge("a", ["a"])
    with pytest.raises(UserError, match=r"^references is one string; give a list of texts$"):
        rouge(["a"], "a")
    with pytest.raises(UserError, match=r"^a candidate has no reference; give at least one$"):
        rouge(["a"], [[]])
    with pytest.raises(UserError, match=r"^n \(0\) must be at least 1$"):
        rouge_n(["a"], [["a"]], 0)
    with pytest.raises(
        UserError, match=r"^no summary was scored, so there is no mean; give at least one candidate and its reference$"
    ):
        _ = Rouge().one.f1
