import pytest

from clew.data.examples import Parsed
from clew.data.trees import parse_tree
from clew.training.baselines import with_baseline
from clew.training.problem import Score

SCORE = Score({"loss": 1.0, "f1": 50.0}, -50.0, "F1 50.00", {"a": 50.0})


def test_a_parser_is_shown_beside_trees_that_branch_to_the_right() -> None:
    # (S a (VP b (VP c d))) has S over all, VP over b..d and c..d; of the gold S, NP and VP over c..d two are right.
    gold = Parsed(parse_tree("(S (NP (DT a) (NN b)) (VP (VB c) (NN d)))"), "a")
    found = with_baseline(SCORE, "trees", [gold])
    assert found.measures["right_branching_f1"] == pytest.approx(100 * 4 / 6)
    assert found.text == "F1 50.00; right-branching trees have F1 66.67"
    assert (found.value, found.examples, found.measures["f1"]) == (SCORE.value, SCORE.examples, 50.0)


def test_what_has_no_baseline_is_left_as_it_is() -> None:
    assert with_baseline(SCORE, "pairs", []) is SCORE
    assert with_baseline(SCORE, "trees", [Parsed(parse_tree("(TOP (NN a))"), "a")]) is SCORE
