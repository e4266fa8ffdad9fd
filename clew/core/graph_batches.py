"""Batches of graphs as tensors, for graph layers."""

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor

from clew.core.graphs import Graph, check_graph, node_levels, reversed_graph

NONE = -1
"""The padding value."""


class GraphBatch(NamedTuple):
    """One row per graph; a selection of rows is a batch too. Edges are (batch, edges), nodes (batch, nodes), and -1 is
    padding."""

    sources: Tensor
    targets: Tensor
    types: Tensor
    levels: Tensor  # (batch, nodes), edges on the longest path to a node; CYCLIC if there is no order
    heights: Tensor  # levels of the reversed graph

    @property
    def mask(self) -> Tensor:
        return self.levels != NONE

    @property
    def turned(self) -> "GraphBatch":
        """The graphs with every edge reversed."""
        return GraphBatch(self.targets, self.sources, self.types, self.heights, self.levels)


class GraphInputs(NamedTuple):
    """The inputs of a body over graphs: its embedding's inputs (batch, nodes), their mask, and the graphs of these
    nodes."""

    words: Any
    mask: Tensor | None
    graphs: GraphBatch


class Edges(NamedTuple):
    """All edges of a batch; their ends are indices into `order`."""

    order: Tensor  # (real nodes,) their indices among all (batch * nodes)
    places: Tensor  # (real edges,) their indices among all (batch * edges)
    sources: Tensor
    targets: Tensor
    types: Tensor


class Level(NamedTuple):
    """The nodes of one level. Edges into it are ordered by the level of their source, lowest first."""

    num_nodes: int
    targets: Tensor  # (edges in,) the node of this level that each enters
    types: Tensor  # (edges in,)
    sources: Tensor  # (edges out,) the node of this level that each leaves, ordered by target level
    leads: tuple[tuple[int, int], ...]  # target levels, and the number of edges to each


class Levels(NamedTuple):
    """The real nodes of a batch, the lowest level first."""

    order: Tensor  # (real nodes,) their places among all (batch * nodes)
    places: Tensor  # (real edges,) their indices among all (batch * edges), in the order in which they enter levels
    levels: list[Level]


def batch_graphs(graphs: Sequence[Graph]) -> GraphBatch:
    """Pad graphs to the most nodes and edges. A graph with an edge to a node that it does not have is refused."""
    for graph in graphs:
        check_graph(graph)
    num_edges = max((len(graph.edges) for graph in graphs), default=0)
    num_nodes = max((graph.num_nodes for graph in graphs), default=0)
    ends = [[[edge[part] for edge in graph.edges] for graph in graphs] for part in range(3)]
    levels = [[node_levels(graph) for graph in graphs], [node_levels(reversed_graph(graph)) for graph in graphs]]
    return GraphBatch(*(rows_to(num_edges, rows) for rows in ends), *(rows_to(num_nodes, rows) for rows in levels))


def rows_to(length: int, rows: Sequence[Sequence[int]]) -> Tensor:
    """Pad rows with -1 to a tensor (rows, length)."""
    values = list(chain.from_iterable([*row, *[NONE] * (length - len(row))] for row in rows))
    return torch.tensor(values, dtype=torch.long).reshape(len(rows), length)


def graph_edges(graphs: GraphBatch) -> Edges:
    """Return all real edges of a batch, regardless of levels."""
    order = graphs.mask.flatten().nonzero()[:, 0]
    numbers = torch.empty_like(graphs.levels.flatten())
    numbers[order] = torch.arange(len(order), device=order.device)
    places, sources, targets = _ends(graphs)
    return Edges(order, places, numbers[sources], numbers[targets], graphs.types.flatten()[places])


def graph_levels(graphs: GraphBatch) -> Levels:
    """Return nodes and edges by level; every edge leads to a higher level. No level may be CYCLIC.

    Edges out of a level are grouped by the level they lead to, so that a step gathers only its own nodes and edges, and
    never copies the states of all nodes.
    """
    levels = graphs.levels.flatten()
    sizes: list[int] = torch.bincount(levels + 1, minlength=1).tolist()[1:]
    order = levels.argsort(stable=True)[len(levels) - sum(sizes) :]
    counts = order.new_tensor(sizes)
    within = torch.empty_like(levels)
    within[order] = torch.arange(len(order), device=order.device) - (counts.cumsum(0) - counts).repeat_interleave(
        counts
    )
    places, sources, targets = _ends(graphs)
    leaves, enters = levels[sources], levels[targets]
    out = (leaves * len(sizes) + enters).argsort(stable=True)
    into = (enters * len(sizes) + leaves).argsort(stable=True)  # the same edges of two levels, in the same order
    pairs, numbers = torch.unique_consecutive((leaves * len(sizes) + enters)[out], return_counts=True)
    leads: list[list[tuple[int, int]]] = [[] for _ in sizes]
    num_in = [0] * len(sizes)
    for pair, number in zip(pairs.tolist(), numbers.tolist(), strict=True):
        start, end = divmod(pair, len(sizes))
        leads[start].append((end, number))
        num_in[end] += number
    num_out = [sum(number for _, number in each) for each in leads]
    entering = zip(within[targets[into]].split(num_in), graphs.types.flatten()[places[into]].split(num_in), strict=True)
    all_levels = [
        Level(size, *ends, starts, tuple(each))
        for size, ends, starts, each in zip(sizes, entering, within[sources[out]].split(num_out), leads, strict=True)
    ]
    return Levels(order, places[into], all_levels)


def _ends(graphs: GraphBatch) -> tuple[Tensor, Tensor, Tensor]:
    """Return the indices of the real edges among all (batch * edges), and of their sources and targets among all (batch
    * nodes)."""
    places = (graphs.types != NONE).flatten().nonzero()[:, 0]
    num_edges, num_nodes = graphs.types.shape[1], graphs.levels.shape[1]
    rows = places // max(num_edges, 1) * num_nodes
    return places, rows + graphs.sources.flatten()[places], rows + graphs.targets.flatten()[places]
