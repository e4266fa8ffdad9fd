import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clew.core.batches import rows_of
from clew.core.errors import UserError
from clew.core.tree_batches import batch_trees, tree_levels
from clew.core.tree_nodes import Nodes, head_nodes, node_depths, phrase_nodes
from tests.core.trees import nested


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
def test_every_node_is_in_one_level_below_its_parent(head_lists):
    """Heads to the left cannot form a cycle."""
    trees = [head_nodes([head % (place + 1) for place, head in enumerate(heads)]) for heads in head_lists]
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
def test_a_cycle_is_rejected(parents):
    with pytest.raises(UserError, match="is its own ancestor, so this is not a tree; every path up must end at a root"):
        batch_trees([Nodes(parents, (0,) * len(parents))])


def test_a_batch_is_of_whole_numbers():
    assert {part.dtype for part in batch_trees([head_nodes([0])])} == {torch.int64}
