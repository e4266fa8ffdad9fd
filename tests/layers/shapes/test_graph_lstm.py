import pytest
import torch

import clew
from clew.core.batches import cut_rows
from clew.core.errors import UserError
from clew.core.graph_batches import batch_graphs
from clew.core.graphs import Graph, node_levels
from clew.core.tree_batches import batch_trees
from clew.core.tree_nodes import head_nodes
from clew.layers.cells import LSTM
from clew.layers.recurrent import Bidirectional, Recurrent
from clew.layers.shapes.graph_lstm import BothWays, GraphLSTM, graph_lstm
from clew.layers.shapes.tree_lstm import ChildSumTreeLSTM
from tests.references import graph_lstm as references
from tests.references.agreement import assert_agrees, randn, randomise

DIAMOND = Graph(5, ((0, 1, 1), (0, 2, 0), (3, 4, 2), (1, 3, 0), (2, 3, 2), (0, 3, 1), (0, 3, 0)))
CYCLE = Graph(4, ((0, 1, 0), (1, 2, 1), (2, 0, 0), (2, 3, 2), (3, 3, 1)))
ROWS = [DIAMOND, Graph(2, ((1, 0, 2),)), Graph(0), Graph(3)]
"""A graph with edges that skip levels and two edges between the same nodes; an edge to a lower number; an empty graph;
nodes without edges."""


def chain(length):
    return Graph(length, tuple((node, node + 1, 0) for node in range(length - 1)))


def copied(cell, layer):
    """The layer with a cell's weights; the biases of edge types stay 0."""
    layer.double().load_state_dict(cell.state_dict(), strict=False)
    return layer


@pytest.mark.parametrize("type_dim", [0, 2])
@pytest.mark.parametrize("both", [False, True])
def test_reading_along_the_edges_equals_its_equations_in_values_and_gradients(type_dim, both):
    layer = randomise(graph_lstm(2, 4 if both else 3, num_types=3, type_dim=type_dim, both_ways=both))
    graphs = batch_graphs(ROWS)

    def reference(p, x):
        return references.both_ways(p, x, ROWS, references.given) if both else references.given(p, x, ROWS)

    assert_agrees(layer, lambda x: layer(x, graphs).hidden, reference, randn(4, 5, 2), entries=5)


@pytest.mark.parametrize("type_dim", [0, 2])
@pytest.mark.parametrize("num_rounds", [1, 3])
def test_reading_in_rounds_equals_its_equations_in_values_and_gradients(type_dim, num_rounds):
    layer = randomise(GraphLSTM(2, 3, num_types=3, order="rounds", num_rounds=num_rounds, type_dim=type_dim))
    rows = [*ROWS, CYCLE]
    graphs = batch_graphs(rows)
    assert_agrees(
        layer,
        lambda x: layer(x, graphs).hidden,
        lambda p, x: references.rounds(p, x, rows, num_rounds),
        randn(5, 5, 2),
        entries=5,
    )


def test_as_many_rounds_as_levels_equal_reading_along_the_edges():
    along = randomise(GraphLSTM(2, 3, num_types=3))
    rounds = GraphLSTM(2, 3, num_types=3, order="rounds", num_rounds=max(node_levels(DIAMOND)) + 1).double()
    rounds.load_state_dict(along.state_dict())
    x, graphs = randn(4, 5, 2), batch_graphs(ROWS)
    for ours, theirs in zip(along(x, graphs), rounds(x, graphs), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("options", [{}, {"order": "rounds", "num_rounds": 6}])
def test_a_chain_is_an_lstm(options):
    """The same parameters give the same values and gradients, also for rows of different lengths."""
    cell = randomise(LSTM(2, 3))
    layer = copied(cell, GraphLSTM(2, 3, **options))
    x, mask = randn(2, 6, 2), torch.arange(6) < torch.tensor([6, 4])[:, None]
    weights = randn(2, 6, 3, seed=1) * mask[..., None]
    expected, _ = Recurrent(cell)(x, mask)
    actual = layer(x, batch_graphs([chain(6), chain(4)]))
    torch.testing.assert_close(actual.hidden, expected * mask[..., None])
    (expected * weights).sum().backward()
    (actual.hidden * weights).sum().backward()
    for name, parameter in cell.named_parameters():
        torch.testing.assert_close(dict(layer.named_parameters())[name].grad, parameter.grad)


def test_a_chain_read_both_ways_is_a_bidirectional_lstm():
    cells = [randomise(LSTM(2, 3), seed) for seed in (1, 2)]
    layer = BothWays(*(copied(cell, GraphLSTM(2, 3)) for cell in cells))
    x = randn(2, 5, 2)
    expected, _ = Bidirectional(*map(Recurrent, cells))(x)
    torch.testing.assert_close(layer(x, batch_graphs([chain(5), chain(5)])).hidden, expected)


def test_a_tree_is_a_child_sum_tree_lstm():
    tree = randomise(ChildSumTreeLSTM(2, 3))
    layer = copied(tree, GraphLSTM(2, 3))
    shapes = [head_nodes([2, 0, 2, 6, 6, 2]), head_nodes([0, 1, 1])]
    graphs = [
        Graph(len(parents), tuple((node, parent, 0) for node, parent in enumerate(parents) if parent >= 0))
        for parents, _ in shapes
    ]
    x, weights = randn(2, 6, 2), randn(2, 6, 3, seed=1)
    expected, actual = tree(x, batch_trees(shapes)), layer(x, batch_graphs(graphs))
    for ours, theirs in zip(actual, expected, strict=True):
        torch.testing.assert_close(ours, theirs)
    (expected.hidden * weights).sum().backward()
    (actual.hidden * weights).sum().backward()
    for name, parameter in tree.named_parameters():
        torch.testing.assert_close(dict(layer.named_parameters())[name].grad, parameter.grad)


@pytest.mark.parametrize("type_dim", [0, 2])
def test_the_type_of_an_edge_changes_the_vector_of_its_target(type_dim):
    layer = randomise(GraphLSTM(2, 3, num_types=2, type_dim=type_dim))
    x = randn(1, 3, 2)
    first, second = (layer(x, batch_graphs([Graph(3, ((0, 1, type), (1, 2, 0)))])).hidden[0] for type in (0, 1))
    moved = (first - second).abs().amax(1) > 1e-6
    assert moved.tolist() == [False, True, True]


@pytest.mark.parametrize("order", ["given", "rounds"])
def test_parts_of_a_batch_give_the_same_rows(order):
    layer, x, graphs = (
        randomise(graph_lstm(2, 4, num_types=3, order=order, both_ways=True)),
        randn(4, 5, 2),
        batch_graphs(ROWS),
    )
    parts = [layer(part, rows).hidden for part, rows in zip(cut_rows(x, 3), cut_rows(graphs, 3), strict=True)]
    torch.testing.assert_close(torch.cat(parts), layer(x, graphs).hidden)


@pytest.mark.parametrize("order", ["given", "rounds"])
def test_empty_inputs_give_empty_outputs(order):
    layer = GraphLSTM(2, 3, order=order)
    assert layer(torch.zeros(0, 0, 2), batch_graphs([])).hidden.shape == (0, 0, 3)
    assert layer(torch.zeros(2, 0, 2), batch_graphs([Graph(0)] * 2)).cell.shape == (2, 0, 3)
    graphs = batch_graphs([chain(2), Graph(0)])
    assert not layer(torch.ones(1, 2, 2), cut_rows(graphs, 2)[1]).hidden.any()


@pytest.mark.parametrize("type_dim", [0, 2])
@pytest.mark.parametrize("order", ["given", "rounds"])
def test_half_precision_runs(order, type_dim):
    layer, graphs = GraphLSTM(2, 3, num_types=3, order=order, type_dim=type_dim), batch_graphs(ROWS)
    with torch.autocast("cpu", torch.bfloat16):
        hidden = layer(torch.randn(4, 5, 2), graphs).hidden
    hidden.float().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in layer.parameters())


def test_invalid_settings_and_inputs_are_rejected_with_a_sentence():
    for graph, node in ((CYCLE, 0), (Graph(3, ((0, 1, 0), (1, 2, 0), (2, 1, 0))), 1)):
        sentence = (
            f"graph 2 has no order along its edges: node {node}, counted from 0, is on a cycle or after one; "
            "remove an edge of the cycle, or use order=rounds"
        )
        with pytest.raises(UserError, match=sentence):
            GraphLSTM(2, 3, num_types=3)(torch.zeros(2, graph.num_nodes, 2), batch_graphs([chain(2), graph]))
    with pytest.raises(UserError, match=r"x \(1, 3, 2\) must have a vector for each of the \(batch, nodes\) \(1, 5\)"):
        GraphLSTM(2, 3)(torch.zeros(1, 3, 2), batch_graphs([DIAMOND]))
    with pytest.raises(
        UserError,
        match="an edge has the type 2, and this graph LSTM has 2, counted from 0; build it with more num_types",
    ):
        GraphLSTM(2, 3, num_types=2)(torch.zeros(1, 5, 2), batch_graphs([DIAMOND]))
    with pytest.raises(UserError, match="a graph LSTM's widths must be at least 1, not input_dim=0, dim=3"):
        GraphLSTM(0, 3)
    with pytest.raises(
        UserError, match="at least 1 type and 1 round, and a type_dim from 0, not num_types=0, num_rounds=4, type_dim=0"
    ):
        GraphLSTM(2, 3, num_types=0)
    with pytest.raises(UserError, match="unknown order 'round'; did you mean 'rounds'"):
        GraphLSTM(2, 3, order="round")
    with pytest.raises(
        UserError, match=r"both_ways gives half of the width to each direction, so dim \(3\) must be even"
    ):
        graph_lstm(2, 3, both_ways=True)


def test_gates_of_a_chain_equal_those_of_an_lstm():
    """An edge's forget gate is that of its target in the LSTM; the first word has nothing to forget."""
    cell = randomise(LSTM(2, 3))
    layer, recurrent = copied(cell, GraphLSTM(2, 3)), Recurrent(cell)
    x = randn(2, 5, 2)
    with (
        clew.record(recurrent, "*.gates.*", "*.cell_state", "*.hidden") as expected,
        clew.record(layer, "*") as recorded,
    ):
        recurrent(x)
        layer(x, batch_graphs([chain(5), chain(5)]))
    for place in ("gates.input", "gates.candidate", "gates.output", "cell_state", "hidden"):
        torch.testing.assert_close(recorded[place], expected[f"cell.{place}"])
    torch.testing.assert_close(recorded["gates.forget"], expected["cell.gates.forget"][:, 1:])


def test_forget_gates_are_indexed_by_their_edges():
    """c of a node is its gated candidate plus, for each edge, the gate times the source's cell."""
    layer = randomise(GraphLSTM(2, 3, num_types=3))
    graphs = batch_graphs(ROWS)
    with clew.record(layer, "*") as recorded:
        layer(randn(4, 5, 2), graphs)
    expected = recorded["gates.input"] * recorded["gates.candidate"]
    for row, graph in enumerate(ROWS):
        for number, (source, target, _) in enumerate(graph.edges):
            expected[row, target] += recorded["gates.forget"][row, number] * recorded["cell_state"][row, source]
    torch.testing.assert_close(recorded["cell_state"], expected)
    assert recorded["gates.forget"].shape == (4, 7, 3) and not recorded["gates.forget"][1, 1:].any()


def test_rounds_are_recorded_on_their_own_axis():
    layer = randomise(GraphLSTM(2, 3, num_types=3, order="rounds", num_rounds=3))
    graphs = batch_graphs([DIAMOND, CYCLE])
    with clew.record(layer, "*") as recorded:
        state = layer(randn(2, 5, 2), graphs)
    assert recorded["gates.forget"].shape == (2, 3, 7, 3) and recorded["hidden"].shape == (2, 3, 5, 3)
    torch.testing.assert_close(recorded["cell_state"][:, -1], state.cell)
    torch.testing.assert_close(
        recorded["cell_state"][:, 0], (recorded["gates.input"] * recorded["gates.candidate"])[:, 0]
    )


@pytest.mark.parametrize("order", ["given", "rounds"])
def test_with_closed_forget_gates_a_node_has_only_its_candidate(order):
    layer = randomise(GraphLSTM(2, 3, num_types=3, order=order))
    with clew.intervene(layer, {"gates.forget": torch.zeros_like}), clew.record(layer, "*") as recorded:
        layer(randn(4, 5, 2), batch_graphs(ROWS))
    torch.testing.assert_close(recorded["cell_state"], recorded["gates.input"] * recorded["gates.candidate"])


def test_a_graph_layer_learns_what_a_chain_of_the_same_words_cannot():
    """Three words, two of them equal: only the graph says from which of them the third has an edge."""
    graphs = batch_graphs([Graph(3, ((source, 2, 0),)) for source in (0, 1)])
    words = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]]).expand(2, -1, -1)
    torch.manual_seed(0)
    layer, output = GraphLSTM(2, 8), torch.nn.Linear(8, 2)
    optimiser = torch.optim.Adam([*layer.parameters(), *output.parameters()], lr=0.05)
    for _ in range(60):
        loss = torch.nn.functional.cross_entropy(output(layer(words, graphs).hidden[:, 2]), torch.tensor([0, 1]))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert loss.item() < 0.1
