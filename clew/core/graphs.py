"""Graphs of nodes and typed, directed edges, as integers. Knows no words, no names of types and no tensors."""

from typing import NamedTuple

from clew.core.errors import UserError

Edge = tuple[int, int, int]
"""(source, target, type); nodes and types are counted from 0. Information flows from source to target."""
CYCLIC = -2
"""The level of a node on a cycle, or reachable from one, which has no place in a topological order."""


class Graph(NamedTuple):
    """The number of nodes, and the edges in any order. Two nodes may have several edges, and a node may have one to
    itself."""

    num_nodes: int
    edges: tuple[Edge, ...] = ()


def check_graph(graph: Graph) -> None:
    for source, target, type in graph.edges:
        if not (0 <= source < graph.num_nodes and 0 <= target < graph.num_nodes):
            raise UserError(f"the edge {source} -> {target} names no node; there are {graph.num_nodes}, counted from 0")
        if type < 0:
            raise UserError(f"the edge {source} -> {target} has the type {type}; types are counted from 0")


def reversed_graph(graph: Graph) -> Graph:
    """Reverse every edge."""
    return Graph(graph.num_nodes, tuple((target, source, type) for source, target, type in graph.edges))


def node_levels(graph: Graph) -> list[int]:
    """Return the number of edges on the longest path to each node; CYCLIC for nodes on a cycle or reachable from
    one."""
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
