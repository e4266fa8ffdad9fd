"""A graph as numbers: nodes, and directed edges of several types between them, for layers that read it. Knows no words, no names of types
and no tensors."""

from typing import NamedTuple

from clew.core.errors import UserError

Edge = tuple[int, int, int]
"""(source, target, type): nodes and types are counted from 0. What the source knows goes to the target."""
CYCLIC = -2
"""The level of a node that no order along the edges reaches: it is on a cycle, or behind one."""


class Graph(NamedTuple):
    """How many nodes there are, and the edges, in any order: two nodes may have several, and a node one to itself."""

    num_nodes: int
    edges: tuple[Edge, ...] = ()


def check_graph(graph: Graph) -> None:
    for source, target, type in graph.edges:
        if not (0 <= source < graph.num_nodes and 0 <= target < graph.num_nodes):
            raise UserError(f"the edge {source} -> {target} names no node; there are {graph.num_nodes}, counted from 0")
        if type < 0:
            raise UserError(f"the edge {source} -> {target} has the type {type}; types are counted from 0")


def reversed_graph(graph: Graph) -> Graph:
    """Every edge the other way round."""
    return Graph(graph.num_nodes, tuple((target, source, type) for source, target, type in graph.edges))


def node_levels(graph: Graph) -> list[int]:
    """How many edges the longest way to each node has, 0 where none leads to it; CYCLIC on a cycle and behind one."""
    after: list[list[int]] = [[] for _ in range(graph.num_nodes)]
    missing = [0] * graph.num_nodes
    for source, target, _ in graph.edges:
        after[source].append(target)
        missing[target] += 1
    levels = [CYCLIC] * graph.num_nodes
    ready = [node for node, count in enumerate(missing) if not count]
    level = 0
    while ready:
        later = []
        for node in ready:
            levels[node] = level
            for target in after[node]:
                missing[target] -= 1
                if not missing[target]:
                    later.append(target)
        ready, level = later, level + 1
    return levels
