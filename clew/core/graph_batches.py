"""Graphs side by side as tensors, for layers that read them."""

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor

from clew.core.graphs import Graph, check_graph, node_levels, reversed_graph

NONE = -1
"""What stands on padding."""


class GraphBatch(NamedTuple):
    """A row a graph; a part of the rows is a batch as well. Edges are (batch, edges), nodes (batch, nodes), and -1 is padding."""

    sources: Tensor
    targets: Tensor
    types: Tensor
    levels: Tensor  # (batch, nodes), edges of the longest way to a node; CYCLIC where there is no order
    heights: Tensor  # the same with every edge the other way round

    @property
    def mask(self) -> Tensor:
        return self.levels != NONE

    @property
    def turned(self) -> "GraphBatch":
        """Every edge the other way round."""
        return GraphBatch(self.targets, self.sources, self.types, self.heights, self.levels)


class GraphInputs(NamedTuple):
    """What a body that reads graphs takes: what its embedding takes (batch, nodes), which of it is real, and the graphs of these nodes."""

    words: Any
    mask: Tensor | None
    graphs: GraphBatch


class Edges(NamedTuple):
    """All edges of a batch, their ends as numbers among the nodes that `order` has."""

    order: Tensor  # (real nodes,) their places among all (batch * nodes)
    places: Tensor  # (real edges,) theirs among all (batch * edges)
    sources: Tensor
    targets: Tensor
    types: Tensor


class Level(NamedTuple):
    """The nodes of one level. Edges into it come by the level that they start at, the lowest first."""

    num_nodes: int
    targets: Tensor  # (edges in,) which node of this level each leads to
    types: Tensor  # (edges in,)
    sources: Tensor  # (edges out,) which node of this level each starts at, by the level that it leads to
    leads: tuple[tuple[int, int], ...]  # those levels, and how many edges lead to each


class Levels(NamedTuple):
    """The real nodes of a batch, the lowest level first."""

    order: Tensor  # (real nodes,) their places among all (batch * nodes)
    places: Tensor  # (real edges,) theirs among all (batch * edges), as they come into the levels
    levels: list[Level]


def batch_graphs(graphs: Sequence[Graph]) -> GraphBatch:
    """Rows as long as the largest graph, of nodes and of edges. A graph whose edges name no node of it is refused."""
    for graph in graphs:
        check_graph(graph)
    num_edges = max((len(graph.edges) for graph in graphs), default=0)
    num_nodes = max((graph.num_nodes for graph in graphs), default=0)
    ends = [[[edge[part] for edge in graph.edges] for graph in graphs] for part in range(3)]
    levels = [[node_levels(graph) for graph in graphs], [node_levels(reversed_graph(graph)) for graph in graphs]]
    return GraphBatch(*(rows_to(num_edges, rows) for rows in ends), *(rows_to(num_nodes, rows) for rows in levels))


def rows_to(length: int, rows: Sequence[Sequence[int]]) -> Tensor:
    """(rows, length), -1 behind each row's end."""
    values = list(chain.from_iterable([*row, *[NONE] * (length - len(row))] for row in rows))
    return torch.tensor(values, dtype=torch.long).reshape(len(rows), length)


def graph_edges(graphs: GraphBatch) -> Edges:
    """The edges over all nodes at once, whatever their levels."""
    order = graphs.mask.flatten().nonzero()[:, 0]
    numbers = torch.empty_like(graphs.levels.flatten())
    numbers[order] = torch.arange(len(order), device=order.device)
    places, sources, targets = _ends(graphs)
    return Edges(order, places, numbers[sources], numbers[targets], graphs.types.flatten()[places])


def graph_levels(graphs: GraphBatch) -> Levels:
    """All edges into a level start at lower ones. There must be an order: no level is CYCLIC."""
    levels = graphs.levels.flatten()
    sizes: list[int] = torch.bincount(levels + 1, minlength=1).tolist()[1:]
    order = levels.argsort(stable=True)[len(levels) - sum(sizes) :]
    counts = order.new_tensor(sizes)
    within = torch.empty_like(levels)
    within[order] = torch.arange(len(order), device=order.device) - (counts.cumsum(0) - counts).repeat_interleave(counts)
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
    found = [
        Level(size, *ends, starts, tuple(each))
        for size, ends, starts, each in zip(sizes, entering, within[sources[out]].split(num_out), leads, strict=True)
    ]
    return Levels(order, places[into], found)


def _ends(graphs: GraphBatch) -> tuple[Tensor, Tensor, Tensor]:
    """Of the real edges: their places among all (batch * edges), and their ends' among all (batch * nodes)."""
    places = (graphs.types != NONE).flatten().nonzero()[:, 0]
    num_edges, num_nodes = graphs.types.shape[1], graphs.levels.shape[1]
    rows = places // max(num_edges, 1) * num_nodes
    return places, rows + graphs.sources.flatten()[places], rows + graphs.targets.flatten()[places]
