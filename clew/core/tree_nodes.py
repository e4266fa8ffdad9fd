"""Trees as lists of parent indices, for tree layers. Knows no labels, no words and no tensors.

In a phrase tree the leaves come first, from left to right, so that word vectors keep their positions; then the phrases,
children before parents. In a dependency tree the nodes are the words.
"""

from collections.abc import Sequence
from itertools import count
from typing import NamedTuple

from clew.core.errors import UserError
from clew.core.trees import Tree, walk

NONE = -1


class Nodes(NamedTuple):
    """One tree or several: the index of each node's parent, -1 for a root, and which child of it the node is, counted
    from 0."""

    parents: tuple[int, ...]
    slots: tuple[int, ...]


def phrase_nodes(tree: Tree) -> tuple[list[Tree], Nodes]:
    """Return the nodes of a phrase tree in order, and their parents and slots."""
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
    """Return the nodes of a dependency tree. Heads are counted from 1; words with head 0 are roots, of which there may
    be several."""
    seen: dict[int, int] = {}
    slots = []
    for head in heads:
        slots.append(seen.get(head, 0) if head else 0)
        seen[head] = seen.get(head, 0) + 1
    return Nodes(tuple(head - 1 for head in heads), tuple(slots))


def binary_nodes(nodes: Nodes) -> Nodes:
    """Binarise a tree as `core.trees.binarised` does: the same nodes with at most two children each, followed by the
    added nodes."""
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
    """Return the number of ancestors of each node. Each node is visited once."""
    depths: dict[int, int] = {NONE: NONE}
    for start in range(len(parents)):
        path: list[int] = []
        node = start
        while node not in depths:
            if len(path) > len(parents):
                raise UserError(
                    f"node {start + 1} is its own ancestor, so this is not a tree; every path up must end at a root"
                )
            path.append(node)
            node = parents[node]
        for number, below in enumerate(reversed(path), start=1):
            depths[below] = depths[node] + number
    return [depths[node] for node in range(len(parents))]
