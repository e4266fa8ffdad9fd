import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clew.core.batches import rows_of
from clew.core.errors import UserError
from clew.core.tree_batches import Nodes, batch_trees, head_nodes, node_depths, phrase_nodes, tree_levels
from clew.core.trees import Tree
from tests.core.trees import nested, phrases

DOG = Tree("S", [Tree("NP", [Tree("DT", word="the"), Tree("NN", word="dog")]), Tree("VBZ", word="barks")])


def test_leaves_come_first_and_parents_after_their_children():
    nodes, shape = phrase_nodes(DOG)
    assert [node.label for node in nodes] == ["DT", "NN", "VBZ", "NP", "S"]
    assert shape == Nodes((3, 3, 4, 4, -1), (0, 1, 1, 0, 0))
    assert phrase_nodes(Tree("NN", word="a"))[1] == Nodes((-1,), (0,))


@given(phrases)
def test_nodes_hang_as_in_the_tree(tree):
    nodes, shape = phrase_nodes(tree)
    assert [node.word for node in nodes if node.is_leaf] == tree.words
    assert [node.is_leaf for node in nodes] == sorted((node.is_leaf for node in nodes), reverse=True)
    for place, node in enumerate(nodes):
        children = sorted((slot, child) for child, (parent, slot) in enumerate(zip(*shape, strict=True)) if parent == place)
        assert [slot for slot, _ in children] == list(range(len(node.children)))
        assert [nodes[child] for _, child in children] == list(node.children)
        assert all(child < place for _, child in children)
    assert shape.parents[-1] == -1


def test_a_part_that_a_tree_has_twice_is_two_nodes():
    word = Tree("NN", word="a")
    assert phrase_nodes(Tree("X", [word, word]))[1] == Nodes((2, 2, -1), (0, 1, 0))


def test_words_hang_on_their_heads():
    # he(2) has(0) good(4) control(2)
    assert head_nodes([2, 0, 4, 2]) == Nodes((1, -1, 3, 1), (0, 0, 0, 1))
    assert head_nodes([0, 0]).slots == (0, 0)


def test_a_batch_is_padded_and_its_rows_are_a_batch():
    trees = [head_nodes([2, 0, 4, 2]), head_nodes([0]), head_nodes([])]
    batch = batch_trees(trees)
    assert batch.parents.tolist() == [[1, -1, 3, 1], [-1, -1, -1, -1], [-1, -1, -1, -1]]
    assert batch.depths.tolist() == [[1, 0, 2, 1], [0, -1, -1, -1], [-1, -1, -1, -1]]
    assert batch.mask.sum(1).tolist() == [4, 1, 0]
    assert batch.roots.sum(1).tolist() == [1, 1, 0]
    assert rows_of(batch, slice(1, 3)).depths.tolist() == [[0, -1, -1, -1], [-1, -1, -1, -1]]
    assert batch_trees([]).depths.shape == (0, 0)


@given(st.lists(st.lists(st.integers(0, 10), max_size=7), max_size=4))
def test_levels_hold_every_node_once_below_its_parent(drawn):
    """Heads that point to the left make no circle."""
    trees = [head_nodes([head % (place + 1) for place, head in enumerate(heads)]) for heads in drawn]
    batch = batch_trees(trees)
    order, levels = tree_levels(batch)
    assert sorted(order.tolist()) == batch.mask.flatten().nonzero()[:, 0].tolist()
    split = order.split([len(level.parents) for level in levels])
    width = batch.depths.shape[1]
    for depth, (nodes, level) in enumerate(zip(reversed(split), reversed(levels), strict=True)):
        assert set(batch.depths.flatten()[nodes].tolist()) == {depth}
        for node, parent, slot in zip(nodes.tolist(), level.parents.tolist(), level.slots.tolist(), strict=True):
            row, place = divmod(node, width)
            assert slot == trees[row].slots[place]
            if depth:
                assert int(split[len(levels) - depth][parent]) == row * width + trees[row].parents[place]


def test_a_tree_deeper_than_pythons_stack_is_read():
    shape = phrase_nodes(nested(5000))[1]
    assert max(node_depths(shape.parents)) == 5000
    assert len(tree_levels(batch_trees([shape])).levels) == 5001


@pytest.mark.parametrize("parents", [(0,), (1, 0), (-1, 2, 3, 1)])
def test_a_circle_is_refused(parents):
    with pytest.raises(UserError, match="is below itself, and this is no tree; every way up must end at a root"):
        batch_trees([Nodes(parents, (0,) * len(parents))])


def test_a_batch_is_of_whole_numbers():
    assert {part.dtype for part in batch_trees([head_nodes([0])])} == {torch.int64}
