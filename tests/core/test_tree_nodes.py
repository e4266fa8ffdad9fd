from hypothesis import given

from clew.core.tree_nodes import Nodes, binary_nodes, head_nodes, phrase_nodes
from clew.core.trees import Tree, binarised
from tests.core.trees import phrases

DOG = Tree("S", [Tree("NP", [Tree("DT", word="the"), Tree("NN", word="dog")]), Tree("VBZ", word="barks")])


def test_leaves_come_first_and_parents_after_their_children():
    nodes, shape = phrase_nodes(DOG)
    assert [node.label for node in nodes] == ["DT", "NN", "VBZ", "NP", "S"]
    assert shape == Nodes((3, 3, 4, 4, -1), (0, 1, 1, 0, 0))
    assert phrase_nodes(Tree("NN", word="a"))[1] == Nodes((-1,), (0,))


@given(phrases)
def test_nodes_have_the_parents_of_the_tree(tree):
    nodes, shape = phrase_nodes(tree)
    assert [node.word for node in nodes if node.is_leaf] == tree.words
    assert [node.is_leaf for node in nodes] == sorted((node.is_leaf for node in nodes), reverse=True)
    for place, node in enumerate(nodes):
        children = sorted(
            (slot, child) for child, (parent, slot) in enumerate(zip(*shape, strict=True)) if parent == place
        )
        assert [slot for slot, _ in children] == list(range(len(node.children)))
        assert [nodes[child] for _, child in children] == list(node.children)
        assert all(child < place for _, child in children)
    assert shape.parents[-1] == -1


def test_a_repeated_part_of_a_tree_is_two_nodes():
    word = Tree("NN", word="a")
    assert phrase_nodes(Tree("X", [word, word]))[1] == Nodes((2, 2, -1), (0, 1, 0))


def test_words_are_children_of_their_heads():
    # he(2) has(0) good(4) control(2)
    assert head_nodes([2, 0, 4, 2]) == Nodes((1, -1, 3, 1), (0, 0, 0, 1))
    assert head_nodes([0, 0]).slots == (0, 0)


def nested_nodes(nodes: Nodes, node: int):
    """A node with its descendants, ignoring places."""
    below = sorted((nodes.slots[child], child) for child, parent in enumerate(nodes.parents) if parent == node)
    return [nested_nodes(nodes, child) for _, child in below]


@given(phrases)
def test_binary_nodes_equal_those_of_the_binary_tree(tree):
    shape = phrase_nodes(tree)[1]
    binary, expected = binary_nodes(shape), phrase_nodes(binarised(tree))[1]
    assert nested_nodes(binary, len(shape.parents) - 1) == nested_nodes(expected, len(expected.parents) - 1)
    unchanged = [place for place, parent in enumerate(shape.parents) if binary.parents[place] == parent]
    assert all(binary.parents[place] >= len(shape.parents) for place in set(range(len(shape.parents))) - set(unchanged))


def test_wide_phrases_are_binarised_from_the_left():
    assert binary_nodes(head_nodes([2, 0, 2, 2])) == Nodes((4, -1, 4, 1, 1), (0, 0, 1, 1, 0))
