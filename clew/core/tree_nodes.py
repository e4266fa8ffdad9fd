"""A tree as the places of its nodes, for layers that read it: each node by its parent's place. Knows no labels, no words and no tensors.

Of a phrase tree the leaves come first, from left to right, and then the phrases, children before parents: vectors of words stand where
their sentence has them. Of a dependency tree the nodes are the words.
"""

from collections.abc import Sequence
from itertools import count
from typing import NamedTuple

from clew.core.errors import UserError
from clew.core.trees import Tree, walk

NONE = -1


class Nodes(NamedTuple):
    """One tree, or several: where each node's parent stands, -1 for a root, and which child of it the node is, counted from 0."""

    parents: tuple[int, ...]
    slots: tuple[int, ...]


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


def binary_nodes(nodes: Nodes) -> Nodes:
    """The same nodes with at most two children each, and behind them those that this takes, as `core.trees.binarised` has them."""
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(nodes.parents):
        if parent != NONE:
            children.setdefault(parent, []).append(node)
    parents, slots = list(nodes.parents), list(nodes.slots)
    for parent, below in children.items():
        left, *rest = sorted(below, key=nodes.slots.__getitem__)
        for right in rest[:-1]:
            added = len(parents)
            parents[left] = parents[right] = added
            slots[left], slots[right] = 0, 1
            parents.append(parent)
            slots.append(0)
            left = added
        if rest:
            slots[rest[-1]] = 1
    return Nodes(tuple(parents), tuple(slots))


def node_depths(parents: Sequence[int]) -> list[int]:
    """How many nodes stand above each; each is walked over once."""
    depths: dict[int, int] = {NONE: NONE}
    for start in range(len(parents)):
        way: list[int] = []
        node = start
        while node not in depths:
            if len(way) > len(parents):
                raise UserError(f"node {start + 1} is below itself, and this is no tree; every way up must end at a root")
            way.append(node)
            node = parents[node]
        for number, below in enumerate(reversed(way), start=1):
            depths[below] = depths[node] + number
    return [depths[node] for node in range(len(parents))]
