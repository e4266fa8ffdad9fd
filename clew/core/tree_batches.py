"""Trees side by side as tensors, for layers that read them. How a tree's nodes are placed is in `tree_nodes`."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from clew.core.tree_nodes import NONE, Nodes, node_depths


class TreeBatch(NamedTuple):
    """A row a sentence. All are (batch, nodes) and -1 on padding; a part of the rows is a batch as well."""

    parents: Tensor  # -1 for roots too
    slots: Tensor
    depths: Tensor  # 0 for roots

    @property
    def mask(self) -> Tensor:
        return self.depths >= 0

    @property
    def roots(self) -> Tensor:
        return self.depths == 0


class TreeInputs(NamedTuple):
    """What a body that reads trees takes: what its embedding takes (batch, words), which words are real, and trees whose first nodes are
    the words."""

    words: Any
    mask: Tensor | None
    trees: TreeBatch


class Level(NamedTuple):
    """The nodes of one depth: which of the level above is each one's parent, and which child of it each is (nodes,)."""

    parents: Tensor
    slots: Tensor


class Levels(NamedTuple):
    """The real nodes of a batch, the deepest level first; `order` (nodes,) has their places among all (batch * nodes)."""

    order: Tensor
    levels: list[Level]


def batch_trees(trees: Sequence[Nodes]) -> TreeBatch:
    """Rows as long as the longest tree."""
    length = max((len(tree.parents) for tree in trees), default=0)
    rows = [(tree.parents, tree.slots, node_depths(tree.parents)) for tree in trees]
    padded = [[[*values, *[NONE] * (length - len(values))] for values in kind] for kind in zip(*rows, strict=True)]
    return TreeBatch(*torch.tensor(padded, dtype=torch.long).reshape(3, len(trees), length).unbind(0))


def tree_levels(trees: TreeBatch) -> Levels:
    """All children of a level are in the one before it, whatever the trees' shapes."""
    depths = trees.depths.flatten()
    sizes = torch.bincount(depths + 1, minlength=1).tolist()[:0:-1]
    order = depths.argsort(descending=True, stable=True)[: sum(sizes)]
    counts = order.new_tensor(sizes)
    within = torch.empty_like(depths)
    within[order] = torch.arange(len(order), device=order.device) - (counts.cumsum(0) - counts).repeat_interleave(counts)
    rows = torch.arange(len(trees.depths), device=order.device)[:, None] * trees.depths.shape[1]
    parents = within[(rows + trees.parents.clamp(min=0)).flatten()[order]]
    slots = trees.slots.flatten()[order]
    return Levels(order, [Level(*level) for level in zip(parents.split(sizes), slots.split(sizes), strict=True)])
