import pytest

from clew.core.errors import UserError
from clew.metrics.answers import best_threshold, normalized, score_answers


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("The  Cat's\tmat.", "cats mat"),  # a point and an apostrophe go, and do not part words
        ("a-b an (the) A.", "ab"),  # a hyphen joins; what is left of "(the)" and "A." is an article
        ("An apple and a pear", "apple and pear"),
        ("theatre", "theatre"),
        ("l’été – “oui”", "l’été – “oui”"),  # punctuation beyond ASCII stays
        ("The", ""),
        ("$1,000.50", "100050"),
    ],
)
def test_what_is_left_of_an_answer_is_what_squads_script_leaves(text: str, left: str) -> None:
    assert normalized(text) == left


def test_a_threshold_is_fitted_to_some_questions() -> None:
    with pytest.raises(UserError, match="a threshold needs questions to fit; give at least one"):
        best_threshold([], [], [])


@pytest.mark.parametrize(
    ("found", "golds", "exact", "f1"),
    [
        ("the Eiffel Tower!", ["Eiffel tower"], 1, 1),
        ("Eiffel", ["in Paris", "the Eiffel Tower"], 0, 2 / 3),  # P = 1, R = 1/2, of the better answer
        ("tower tower tower", ["tower tower of"], 0, 2 / 3),  # two of three on both sides
        ("Rome", ["Paris"], 0, 0),
        ("", [], 1, 1),  # no answer, and none given
        ("Rome", [], 0, 0),
        ("", ["Rome"], 0, 0),
        ("the", ["Rome"], 0, 0),  # nothing is left of it
        ("an", ["the"], 1, 1),  # a right answer of which nothing is left is none
        ("Rome", ["the", "Rome"], 1, 1),
    ],
)
def test_awkward_answers_score_what_the_definition_says(found: str, golds: list[str], exact: float, f1: float) -> None:
    scores = score_answers([found], [golds])
    assert scores.exact == (exact,)
    assert scores.f1 == pytest.approx((f1,))


def test_means_are_told_apart_by_whether_there_is_an_answer() -> None:
    scores = score_answers(["Rome", "", "x"], [["Rome"], ["Oslo"], []])
    assert scores.answerable == (True, True, False)
    assert scores.mean("exact") == pytest.approx(1 / 3)
    assert scores.mean("f1", answerable=True) == 0.5
    assert scores.mean("f1", answerable=False) == 0
    with pytest.raises(UserError, match=r"there must be as many answers \(1\) as questions \(2\)"):
        score_answers(["a"], [[], []])


def test_the_threshold_is_the_best_of_all_that_could_be() -> None:
    """Margins -2, 0, 1, 3: answering the first three gives 1 + 0 + 0.5 + 1 for the unanswerable last; every other cut
    gives less."""
    margins, scores, answerable = [3.0, 0.0, -2.0, 1.0], [0.0, 0.0, 1.0, 0.5], [False, True, True, True]
    found = best_threshold(margins, scores, answerable)
    assert found == 2.0  # between 1 and 3

    def total(threshold: float) -> float:
        return sum(
            (not has) if margin > threshold else score
            for margin, score, has in zip(margins, scores, answerable, strict=True)
        )

    assert total(found) == max(total(threshold) for threshold in (-3, -1, 0.5, 2, 4)) == 2.5
    assert (
        best_threshold([1.0, 1.0], [1.0, 0.0], [True, False]) == 2.0
    )  # equal margins cannot be parted; answering wins a tie
    assert best_threshold([0.0], [0.0], [False]) == -1.0
