import pytest

from clew.baselines.branching import Branching, fit_branching
from clew.core.errors import UserError
from clew.data.syntax.trees import parse_tree, parse_trees
from clew.metrics.brackets import score_sentence

WORDS, TAGS = ["a", "b", "c", "d"], ["A", "B", "C", "D"]


def test_phrases_nest_to_the_right_or_to_the_left():
    assert Branching("right", "S", "X").parse(WORDS, TAGS) == parse_tree("(S (A a) (X (B b) (X (C c) (D d))))")
    assert Branching("left", "S", "X").parse(WORDS, TAGS) == parse_tree("(S (X (X (A a) (B b)) (C c)) (D d))")


def test_punctuation_has_no_bracket():
    words, tags = ['"', "a", ",", "b", "c", "."], ["``", "A", ",", "B", "C", "."]
    assert Branching("right", "S", "X").parse(words, tags) == parse_tree('(S (`` ") (A a) (, ,) (X (B b) (C c) (. .)))')
    assert Branching("left", "S", "X").parse(words, tags) == parse_tree('(S (X (`` ") (A a) (, ,) (B b)) (C c) (. .))')
    assert Branching("left", "S", "X").parse(["!", "."], [".", "."]) == parse_tree("(S (. !) (. .))")


@pytest.mark.parametrize("side", ["right", "left"])
def test_one_and_two_words_have_only_the_outermost_phrase(side):
    assert Branching(side, "S", "X").parse(["a"], ["A"]) == parse_tree("(S (A a))")
    assert Branching(side, "S", "X").parse(["a", "b"], ["A", "B"]) == parse_tree("(S (A a) (B b))")


def test_labels_are_those_most_often_correct_on_that_side():
    trees = parse_trees(
        """
        ( (S (NP (D a) (N b)) (VP (V c) (PP (P d) (N e))) (. .)) )
        (TOP (S (NP (N a)) (VP (V c) (N e)) (. .)))
        (TOP (FRAG (NP (D a) (N b)) (. .)))
        """
    )
    # Ignoring the full stop, VP 2-5, PP 3-5 and VP 1-3 reach the end of their sentence; only NP 0-2, in the first one,
    # starts at its beginning.
    assert fit_branching(trees) == Branching("right", "S", "VP")
    assert fit_branching(trees, "left") == Branching("left", "S", "NP")
    parse = fit_branching(trees).parse(trees[0].words, trees[0].tags)
    score = score_sentence(trees[0], parse).all
    assert (score.matched, score.gold, score.predicted) == (2, 4, 4)  # S 0-5 and VP 2-5


def test_missing_words_sides_and_trees_are_rejected():
    with pytest.raises(UserError, match=r"^there must be as many words \(0\) as tags \(0\), and at least one$"):
        Branching("right", "S", "X").parse([], [])
    with pytest.raises(UserError, match=r"^there must be as many words \(1\) as tags \(2\), and at least one$"):
        Branching("right", "S", "X").parse(["a"], ["A", "B"])
    with pytest.raises(UserError, match=r"^side 'up' must be right or left$"):
        fit_branching([], "up")
    with pytest.raises(UserError, match=r"^no tree has a phrase to take labels from; give some trees$"):
        fit_branching([])
