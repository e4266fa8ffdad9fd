"""Batches of trees as tensors, for tree layers. `tree_nodes` defines the order of a tree's nodes."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from clew.core.tree_nodes import NONE, Nodes, node_depths


class TreeBatch(NamedTuple):
    """One row per sentence; a selection of rows is a batch too. All are (batch, nodes), and -1 on padding."""

    parents: Tensor  # -1 also for roots
    slots: Tensor
    depths: Tensor  # 0 for roots

    @property
    def mask(self) -> Tensor:
        return self.depths >= 0

    @property
    def roots(self) -> Tensor:
        return self.depths == 0


class TreeInputs(NamedTuple):
    """The inputs of a body over trees: its embedding's inputs (batch, words), their mask, and trees whose first nodes
    are the words."""

    words: Any
    mask: Tensor | None
    trees: TreeBatch


class Level(NamedTuple):
    """The nodes of one depth: the index of each node's parent in the level above, and the slot of the node among
    the parent's children (nodes,)."""

    parents: Tensor
    slots: Tensor


class Levels(NamedTuple):
    """The real nodes of a batch, the deepest level first; `order` (nodes,) has their indices in the flattened
    batch (batch * nodes)."""

    order: Tensor
    levels: list[Level]


def batch_trees(trees: Sequence[Nodes]) -> TreeBatch:
    """Pad trees to the one with the most nodes."""
    length = max((len(tree.parents) for tree in trees), default=0)
    rows = [(tree.parents, tree.slots, node_depths(tree.parents)) for tree in trees]
    padded = [[[*values, *[NONE] * (length - len(values))] for values in kind] for kind in zip(*rows, strict=True)]
    return TreeBatch(*torch.tensor(padded, dtype=torch.long).reshape(3, len(trees), length).unbind(0))


def tree_levels(trees: TreeBatch) -> Levels:
    """Group nodes by depth rather than by height, so that all children of a level are in the level before it and a step
    touches only its own nodes."""
    depths = trees.depths.flatten()
    sizes = torch.bincount(depths + 1, minlength=1).tolist()[:0:-1]
    order = depths.argsort(descending=True, stable=True)[: sum(sizes)]
    counts = order.new_tensor(sizes)
    level_starts = (counts.cumsum(0) - counts).repeat_interleave(counts)
    index_in_level = torch.empty_like(depths)
    index_in_level[order] = torch.arange(len(order), device=order.device) - level_starts
    rows = torch.arange(len(trees.depths), device=order.device)[:, None] * trees.depths.shape[1]
    parents = index_in_level[(rows + trees.parents.clamp(min=0)).flatten()[order]]
    slots = trees.slots.flatten()[order]
    return Levels(order, [Level(*level) for level in zip(parents.split(sizes), slots.split(sizes), strict=True)])
