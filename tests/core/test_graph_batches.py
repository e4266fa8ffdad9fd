import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clew.core.batches import rows_of
from clew.core.errors import UserError
from clew.core.graph_batches import batch_graphs, graph_edges, graph_levels
from clew.core.graphs import CYCLIC, Graph, reversed_graph
from tests.core.test_graphs import graphs

DIAMOND = Graph(4, ((0, 1, 1), (0, 2, 0), (1, 3, 0), (2, 3, 2), (0, 3, 1)))
dags = graphs.map(
    lambda graph: graph._replace(edges=tuple((min(a, b), max(a, b), type) for a, b, type in graph.edges if a != b))
)


def test_a_batch_is_padded_and_its_rows_are_a_batch():
    batch = batch_graphs([DIAMOND, Graph(1), Graph(0)])
    assert batch.sources.tolist() == [[0, 0, 1, 2, 0], [-1] * 5, [-1] * 5]
    assert batch.targets.tolist() == [[1, 2, 3, 3, 3], [-1] * 5, [-1] * 5]
    assert batch.types.tolist() == [[1, 0, 0, 2, 1], [-1] * 5, [-1] * 5]
    assert batch.levels.tolist() == [[0, 1, 1, 2], [0, -1, -1, -1], [-1] * 4]
    assert batch.heights.tolist() == [[2, 1, 1, 0], [0, -1, -1, -1], [-1] * 4]
    assert batch.mask.tolist() == [[True] * 4, [True, False, False, False], [False] * 4]
    part = rows_of(batch, slice(1, 3))
    assert part.levels.tolist() == batch.levels[1:].tolist() and graph_edges(part).order.tolist() == [0]


def test_a_node_on_a_cycle_is_real():
    batch = batch_graphs([Graph(2, ((0, 1, 0), (1, 0, 0)))])
    assert batch.levels.tolist() == [[CYCLIC, CYCLIC]] and batch.mask.all()


@given(rows=st.lists(graphs, max_size=3))
def test_a_reversed_batch_equals_the_batch_of_reversed_graphs(rows):
    for ours, theirs in zip(
        batch_graphs(rows).turned, batch_graphs([reversed_graph(graph) for graph in rows]), strict=True
    ):
        assert torch.equal(ours, theirs)


@given(rows=st.lists(graphs, max_size=3))
def test_edges_keep_their_ends_and_types(rows):
    batch = batch_graphs(rows)
    order, places, sources, targets, types = (part.tolist() for part in graph_edges(batch))
    size, length = batch.levels.shape[1], batch.types.shape[1]
    expected = [
        (row * length + place, row * size + source, row * size + target, type)
        for row, graph in enumerate(rows)
        for place, (source, target, type) in enumerate(graph.edges)
    ]
    assert [
        (place, order[a], order[b], type) for place, a, b, type in zip(places, sources, targets, types, strict=True)
    ] == expected
    assert order == [row * size + node for row, graph in enumerate(rows) for node in range(graph.num_nodes)]


@given(rows=st.lists(dags, max_size=3))
def test_levels_carry_every_edge_from_its_source_to_its_target(rows):
    """Values that leave a level are kept, in pieces, until their target's level, as in the layers."""
    batch = batch_graphs(rows)
    order, places, levels = graph_levels(batch)
    size, length = batch.levels.shape[1], batch.types.shape[1]
    names = order.split([level.num_nodes for level in levels])
    waiting = [[] for _ in levels]
    edges = []
    for number, (level, own) in enumerate(zip(levels, names, strict=True)):
        assert batch.levels.flatten()[own].eq(number).all()
        starts = [start for piece in waiting[number] for start in piece]
        edges += zip(starts, own[level.targets].tolist(), level.types.tolist(), strict=True)
        for (end, _), piece in zip(
            level.leads, own[level.sources].split([count for _, count in level.leads]), strict=True
        ):
            assert end > number
            waiting[end].append(piece.tolist())
    expected = {
        row * length + place: (row * size + source, row * size + target, type)
        for row, graph in enumerate(rows)
        for place, (source, target, type) in enumerate(graph.edges)
    }
    assert dict(zip(places.tolist(), edges, strict=True)) == expected


def test_invalid_graphs_are_rejected():
    with pytest.raises(UserError, match="the edge 0 -> 7 names no node; there are 4"):
        batch_graphs([DIAMOND, Graph(4, ((0, 7, 0),))])
