import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import UserError
from clew.core.graphs import CYCLIC, Graph, check_graph, node_levels, reversed_graph

graphs = st.integers(1, 6).flatmap(
    lambda size: st.builds(
        Graph,
        st.just(size),
        st.lists(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1), st.integers(0, 2)), max_size=9).map(
            tuple
        ),
    )
)


def path_lengths_to(graph, node, edges_taken=()):
    """The numbers of edges of all paths to a node that use no edge twice."""
    yield 0
    for number, (source, target, _) in enumerate(graph.edges):
        if target == node and number not in edges_taken:
            yield from (1 + length for length in path_lengths_to(graph, source, (*edges_taken, number)))


def is_behind_a_cycle(graph, node):
    """Whether some path back from a node visits the same node twice."""
    before = {
        place: {source for source, target, _ in graph.edges if target == place} for place in range(graph.num_nodes)
    }
    led = {node}
    for _ in range(graph.num_nodes):
        led |= {source for place in led for source in before[place]}
    for start in led:
        reachable = set(before[start])
        for _ in range(graph.num_nodes):
            reachable |= {source for place in reachable for source in before[place]}
        if start in reachable:
            return True
    return False


@given(graph=graphs)
def test_a_level_is_the_longest_path_to_a_node_or_cyclic_if_unbounded(graph):
    for node, level in enumerate(node_levels(graph)):
        assert level == (CYCLIC if is_behind_a_cycle(graph, node) else max(path_lengths_to(graph, node)))


def test_nodes_before_a_cycle_have_levels_and_those_after_it_have_none():
    graph = Graph(5, ((0, 1, 0), (1, 2, 0), (2, 1, 0), (2, 3, 0)))
    assert node_levels(graph) == [0, CYCLIC, CYCLIC, CYCLIC, 0]
    assert node_levels(reversed_graph(graph)) == [CYCLIC, CYCLIC, CYCLIC, 0, 0]
    assert node_levels(Graph(1, ((0, 0, 0),))) == [CYCLIC]


def test_edges_with_unknown_nodes_are_rejected():
    with pytest.raises(UserError, match="the edge 0 -> 2 names no node; there are 2, counted from 0"):
        check_graph(Graph(2, ((0, 1, 0), (0, 2, 0))))
    with pytest.raises(UserError, match="the edge 0 -> 1 has the type -1; types are counted from 0"):
        check_graph(Graph(2, ((0, 1, -1),)))
