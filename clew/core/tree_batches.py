"""Trees side by side as tensors, for layers that read them: each node by its parent's place. Knows no labels and no words.

Of a phrase tree the leaves come first, from left to right, and then the phrases, children before parents: vectors of words stand where
their sentence has them. Of a dependency tree the nodes are the words.
"""

from collections.abc import Sequence
from itertools import count
from typing import NamedTuple

import torch
from torch import Tensor

from clew.core.errors import UserError
from clew.core.trees import Tree, walk

NONE = -1


class Nodes(NamedTuple):
    """One tree, or several: where each node's parent stands, -1 for a root, and which child of it the node is, counted from 0."""

    parents: tuple[int, ...]
    slots: tuple[int, ...]


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


class Level(NamedTuple):
    """The nodes of one depth: which of the level above is each one's parent, and which child of it each is (nodes,)."""

    parents: Tensor
    slots: Tensor


class Levels(NamedTuple):
    """The real nodes of a batch, the deepest level first; `order` (nodes,) has their places among all (batch * nodes)."""

    order: Tensor
    levels: list[Level]


def phrase_nodes(tree: Tree) -> tuple[list[Tree], Nodes]:
    """A tree's nodes in the order in which they stand here, and how they hang together."""
    num_leaves = sum(1 for _ in tree.leaves())
    leaf_places, phrase_places = count(), count(num_leaves)
    placed: dict[int, Tree] = {}
    parents: dict[int, int] = {}
    slots: dict[int, int] = {}
    opened: list[list[int]] = [[]]
    for node, opens in walk(tree):
        if opens and not node.is_leaf:
            opened.append([])
            continue
        place = next(leaf_places if node.is_leaf else phrase_places)
        if not node.is_leaf:
            for slot, child in enumerate(opened.pop()):
                parents[child], slots[child] = place, slot
        placed[place] = node
        opened[-1].append(place)
    places = range(len(placed))
    return [placed[place] for place in places], Nodes(
        tuple(parents.get(place, NONE) for place in places), tuple(slots.get(place, 0) for place in places)
    )


def head_nodes(heads: Sequence[int]) -> Nodes:
    """The words of a dependency tree; heads are counted from 1, and 0 is the root, of which there may be several."""
    seen: dict[int, int] = {}
    slots = []
    for head in heads:
        slots.append(seen.get(head, 0) if head else 0)
        seen[head] = seen.get(head, 0) + 1
    return Nodes(tuple(head - 1 for head in heads), tuple(slots))


def batch_trees(trees: Sequence[Nodes]) -> TreeBatch:
    """Rows as long as the longest tree."""
    length = max((len(tree.parents) for tree in trees), default=0)
    rows = [(tree.parents, tree.slots, node_depths(tree.parents)) for tree in trees]
    padded = [[[*values, *[NONE] * (length - len(values))] for values in kind] for kind in zip(*rows, strict=True)]
    return TreeBatch(*torch.tensor(padded, dtype=torch.long).reshape(3, len(trees), length).unbind(0))


def node_depths(parents: Sequence[int]) -> list[int]:
    """How many nodes stand above each; each is walked over once."""
    depths: list[int | None] = [None] * len(parents)
    for start in range(len(parents)):
        way: list[int] = []
        node = start
        while node != NONE and depths[node] is None:
            if len(way) > len(parents):
                raise UserError(f"node {start + 1} is below itself, and this is no tree; every way up must end at a root")
            way.append(node)
            node = parents[node]
        depth = NONE if node == NONE else depths[node]
        for number, below in enumerate(reversed(way), start=1):
            depths[below] = depth + number  # type: ignore[operator]
    return depths  # type: ignore[return-value]


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
