import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import UserError
from clew.core.trees import Tree
from clew.data.corpora.samples import sample_path
from clew.data.syntax.linearisation import delinearise, linearise, tree_tokens
from clew.data.syntax.trees import parse_tree, read_trees
from clew.decoding.trees import TreeTokens
from tests.core.trees import nested, phrases

DOG = parse_tree("(S (NP (DT the) (NN dog)) (VP (VBZ barks)))")


def test_closing_brackets_are_labelled_and_words_normalised():
    assert " ".join(linearise(DOG)) == "(S (NP XX XX )NP (VP XX )VP )S"
    assert " ".join(linearise(DOG, leaf=None)) == "(S (NP DT NN )NP (VP VBZ )VP )S"
    assert " ".join(linearise(parse_tree("(TOP (S (S (VP (VB Go)))))"))) == "(TOP (S (S (VP XX )VP )S )S )TOP"


@given(phrases, st.sampled_from(["XX", None, "<word>"]))
def test_delinearising_restores_trees_given_words_and_tags(tree, leaf):
    assert delinearise(linearise(tree, leaf), tree.words, tree.tags) == tree
    assert delinearise(linearise(tree, leaf=None), tree.words) == tree


def test_without_tags_a_word_is_tagged_with_its_symbol():
    assert delinearise(linearise(DOG), DOG.words) == parse_tree("(S (NP (XX the) (XX dog)) (VP (XX barks)))")


def test_unlabelled_roots_and_single_leaves_are_restored():
    for tree in (parse_tree("( (S (NN a)))"), Tree("NN", word="a"), nested(20 * sys.getrecursionlimit())):
        assert delinearise(linearise(tree), tree.words, tree.tags) == tree


def test_the_embedded_treebank_is_restored():
    for tree in read_trees(sample_path("craft") / "dev.mrg"):
        assert delinearise(linearise(tree), tree.words, tree.tags) == tree


@pytest.mark.parametrize(
    "symbols, sentence",
    [
        ("(S XX )S XX", "symbol 4 of 4 ('XX') comes after the end of the tree"),
        ("XX XX", "symbol 2 of 2 ('XX') comes after the end of the tree"),
        (")S", "symbol 1 of 1 (')S') closes a bracket that is not open; none is open"),
        (")", "symbol 1 of 1 (')') closes a bracket that is not open; none is open"),
        ("(S (NP XX )S", "symbol 4 of 4 (')S') closes a bracket that is not open; the innermost open one is '(NP'"),
        ("(S )S", "symbol 2 of 2 (')S') closes an empty bracket"),
        ("(S XX XX XX )S", "symbol 4 of 5 ('XX') stands for a word, but the sentence has only 2"),
        ("(S XX (NP XX )NP", "the tree is not closed after symbol 5: 1 open, innermost '(S'"),
        ("", "the tree is empty; it needs at least one bracket around the sentence's words"),
        ("(S XX )S", "the tree has 1 words, but the sentence has 2"),
    ],
)
def test_symbols_that_form_no_tree_over_the_words_are_rejected(symbols, sentence):
    with pytest.raises(UserError) as caught:
        delinearise(symbols.split(), ["a", "b"])
    assert str(caught.value) == sentence


def test_words_must_exist_and_match_the_number_of_tags():
    with pytest.raises(UserError, match=r"^the number of tags \(2\) must equal the number of words \(1\)$"):
        delinearise(["XX"], ["a"], ["N", "N"])
    with pytest.raises(UserError, match=r"^a tree needs at least one word, and the sentence has none$"):
        delinearise(["(S", ")S"], [])


def test_tree_symbols_are_grouped_into_constraint_tokens():
    symbols = ["<pad>", "<s>", "</s>", ")NP", "(S", "XX", "(NP", ")S", "NN"]
    assert tree_tokens(symbols, start=1, end=2) == TreeTokens([4, 6], [7, 3], [5, 8], 1, 2)
    assert tree_tokens(["(S", ")S", "XX", "go", "stop"], start=3, end=4) == TreeTokens([0], [1], [2], 3, 4)


def test_an_unmatched_bracket_is_rejected():
    with pytest.raises(UserError, match=r"^the vocabulary has '\(NP' but not '\)NP'; brackets come in pairs$"):
        tree_tokens(["(S", ")S", "(NP", "XX", "<s>"], start=4, end=4)
    with pytest.raises(UserError, match=r"^the vocabulary has '\)S' but not '\(S'; brackets come in pairs$"):
        tree_tokens([")S", "XX"], start=0, end=1)
