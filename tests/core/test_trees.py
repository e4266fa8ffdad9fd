import sys

import pytest
from hypothesis import given

from clew.core.errors import UserError
from clew.core.trees import Span, Tree, binarised, bracketed, fold, spans, walk
from tests.core.trees import nested, phrases

DOG = Tree("S", [Tree("NP", [Tree("DT", word="the"), Tree("NN", word="dog")]), Tree("VP", [Tree("VBZ", word="barks")])])


def test_a_tree_knows_its_words_tags_and_depth():
    assert DOG.words == ["the", "dog", "barks"]
    assert DOG.tags == ["DT", "NN", "VBZ"]
    assert DOG.depth == 2
    assert [node.label for node in DOG.nodes()] == ["S", "NP", "DT", "NN", "VP", "VBZ"]
    assert repr(DOG) == "(S (NP (DT the) (NN dog)) (VP (VBZ barks)))"
    assert bracketed(DOG, str.upper) == "(S (NP (DT THE) (NN DOG)) (VP (VBZ BARKS)))"


def test_spans_cover_words_parents_first():
    assert spans(DOG) == [Span("S", 0, 3), Span("NP", 0, 2), Span("VP", 2, 3)]
    assert spans(nested(2)) == [Span("X", 0, 1), Span("X", 0, 1)]
    assert spans(Tree("NN", word="a")) == []


def test_a_walk_opens_and_closes_every_phrase():
    events = [(node.label, opens) for node, opens in walk(DOG)]
    assert events == [
        ("S", True),
        ("NP", True),
        ("DT", True),
        ("NN", True),
        ("NP", False),
        ("VP", True),
        ("VBZ", True),
        ("VP", False),
        ("S", False),
    ]


@given(phrases)
def test_a_fold_that_rebuilds_nodes_gives_the_tree(tree):
    assert fold(tree, lambda node, below: Tree(node.label, below, node.word)) == tree


@given(phrases, phrases)
def test_trees_are_equal_exactly_if_their_texts_are(a, b):
    assert (a == b) == (bracketed(a) == bracketed(b))
    assert a != b or hash(a) == hash(b)


@pytest.mark.parametrize(
    "different",
    [
        Tree(
            "S", [Tree("NP", [Tree("DT", word="the"), Tree("NN", word="dog")]), Tree("VP", [Tree("VBZ", word="bites")])]
        ),
        Tree(
            "S", [Tree("NP", [Tree("DT", word="the")]), Tree("NN", word="dog"), Tree("VP", [Tree("VBZ", word="barks")])]
        ),
        Tree(
            "S", [Tree("NP", [Tree("DT", word="the"), Tree("NN", word="dog")]), Tree("VB", [Tree("VBZ", word="barks")])]
        ),
        "(S (NP (DT the) (NN dog)) (VP (VBZ barks)))",
    ],
)
def test_trees_with_another_word_shape_label_or_type_differ(different):
    assert different != DOG


def test_a_tree_may_be_deeper_than_the_stack():
    depth = 20 * sys.getrecursionlimit()
    tree = nested(depth)
    assert tree == nested(depth) and hash(tree) == hash(nested(depth))
    assert tree != nested(depth - 1)
    assert tree.depth == depth == len(spans(tree))
    assert len(repr(tree)) == 4 * depth + len("(N a)")


def test_a_node_has_children_or_a_word():
    with pytest.raises(UserError, match="^the node 'NP' has neither children nor a word; a node has one or the other$"):
        Tree("NP")
    with pytest.raises(UserError, match="^the node 'NP' has children and the word 'dog'; a node has one or the other$"):
        Tree("NP", [DOG], "dog")


def test_a_binary_tree_has_at_most_two_children():
    wide = Tree("NP", [Tree("DT", word=word) for word in "abcd"])
    assert repr(binarised(wide)) == "(NP (@NP (@NP (DT a) (DT b)) (DT c)) (DT d))"
    assert binarised(DOG) == DOG


@given(phrases)
def test_a_binary_tree_keeps_words_and_phrases(tree):
    binary = binarised(tree)
    assert all(len(node.children) <= 2 for node in binary.nodes())
    assert (binary.words, binary.tags) == (tree.words, tree.tags)
    assert [span for span in spans(binary) if not span.label.startswith("@")] == spans(tree)
