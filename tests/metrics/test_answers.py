import pytest

from clew.core.errors import UserError
from clew.metrics.answers import best_threshold, normalized, score_answers


@pytest.mark.parametrize(
    ("text", "normalised"),
    [
        ("The  Cat's\tmat.", "cats mat"),  # full stops and apostrophes are removed without splitting words
        ("a-b an (the) A.", "ab"),  # hyphenated parts are joined; "(the)" and "A." become articles, which are removed
        ("An apple and a pear", "apple and pear"),
        ("theatre", "theatre"),
        ("l’été – “oui”", "l’été – “oui”"),  # non-ASCII punctuation is kept
        ("The", ""),
        ("$1,000.50", "100050"),
    ],
)
def test_answers_are_normalised_like_in_squads_script(text: str, normalised: str) -> None:
    assert normalized(text) == normalised


def test_fitting_a_threshold_without_questions_is_rejected() -> None:
    with pytest.raises(UserError, match="a threshold needs questions to fit; give at least one"):
        best_threshold([], [], [])


@pytest.mark.parametrize(
    ("answer", "golds", "exact", "f1"),
    [
        ("the Eiffel Tower!", ["Eiffel tower"], 1, 1),
        ("Eiffel", ["in Paris", "the Eiffel Tower"], 0, 2 / 3),  # P = 1, R = 1/2 for the better answer
        ("tower tower tower", ["tower tower of"], 0, 2 / 3),  # two of three on both sides
        ("Rome", ["Paris"], 0, 0),
        ("", [], 1, 1),  # no answer expected and none given
        ("Rome", [], 0, 0),
        ("", ["Rome"], 0, 0),
        ("the", ["Rome"], 0, 0),  # empty after normalisation
        ("an", ["the"], 1, 1),  # a correct answer that is empty after normalisation counts as no answer
        ("Rome", ["the", "Rome"], 1, 1),
    ],
)
def test_unusual_answers_are_scored_by_the_definition(answer: str, golds: list[str], exact: float, f1: float) -> None:
    scores = score_answers([answer], [golds])
    assert scores.exact == (exact,)
    assert scores.f1 == pytest.approx((f1,))


def test_means_are_computed_separately_for_answerable_questions() -> None:
    scores = score_answers(["Rome", "", "x"], [["Rome"], ["Oslo"], []])
    assert scores.answerable == (True, True, False)
    assert scores.mean("exact") == pytest.approx(1 / 3)
    assert scores.mean("f1", answerable=True) == 0.5
    assert scores.mean("f1", answerable=False) == 0
    with pytest.raises(UserError, match=r"there must be as many answers \(1\) as questions \(2\)"):
        score_answers(["a"], [[], []])


def test_the_threshold_is_the_best_of_all_possible_ones() -> None:
    """Margins -2, 0, 1, 3: answering the first three gives 1 + 0 + 0.5, and 1 for the unanswerable last one; every
    other threshold gives less."""
    margins, scores, answerable = [3.0, 0.0, -2.0, 1.0], [0.0, 0.0, 1.0, 0.5], [False, True, True, True]
    fitted = best_threshold(margins, scores, answerable)
    assert fitted == 2.0  # between 1 and 3

    def total(threshold: float) -> float:
        return sum(
            (not has) if margin > threshold else score
            for margin, score, has in zip(margins, scores, answerable, strict=True)
        )

    assert total(fitted) == max(total(threshold) for threshold in (-3, -1, 0.5, 2, 4)) == 2.5
    assert (
        best_threshold([1.0, 1.0], [1.0, 0.0], [True, False]) == 2.0
    )  # equal margins cannot be separated; on a tie, answering wins
    assert best_threshold([0.0], [0.0], [False]) == -1.0
