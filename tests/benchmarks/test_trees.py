from random import Random

import pytest
import torch

from benchmarks.trees import batched, node_by_node, random_tree
from clew.layers.shapes.tree_lstm import TREE_LAYERS


@pytest.mark.parametrize("name", TREE_LAYERS)
def test_trees_in_batches_alone_and_node_by_node_have_the_same_vectors(name):
    layer, random = TREE_LAYERS[name](3, 4).double(), Random(1)
    trees = [random_tree(6, random) for _ in range(5)]
    inputs = list(torch.randn(5, 11, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1)))
    expected = node_by_node(layer, trees, inputs)
    for size in (1, 2, 5):
        torch.testing.assert_close(batched(size)(layer, trees, inputs), expected)
