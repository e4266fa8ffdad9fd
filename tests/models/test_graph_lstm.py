import pytest
import torch

from clew.core.errors import UserError
from clew.core.graph_batches import GraphInputs, batch_graphs
from clew.core.graphs import Graph
from clew.laws.cases import Sizes
from clew.laws.graphs import GRAPH_LAWS, OverNodes
from clew.layers.cells import LSTM
from clew.layers.recurrent import Recurrent
from clew.models.graph_lstm import GraphLSTMConfig, build_graph_lstm
from clew.sources.graph_nodes import GraphNodes
from clew.sources.tokens import Tokens
from clew.sources.vectors import Vectors

NODES = GraphNodes(Tokens(7), 3)
CHAIN = Graph(4, ((0, 1, 0), (1, 2, 0), (2, 3, 0)))


def build(source=NODES, **options):
    return build_graph_lstm(GraphLSTMConfig(**{"dim": 4, "embedding_dim": 3, **options}), source).double()


@pytest.mark.parametrize("layer", ["graph_lstm", {"name": "graph_lstm", "order": "rounds", "num_rounds": 2}])
@pytest.mark.parametrize("num_layers", [1, 2])
def test_a_body_over_graphs_obeys_the_laws_of_graph_layers(layer, num_layers):
    for law in GRAPH_LAWS.values():
        law(
            lambda sizes: OverNodes(
                build(layer=layer, dim=sizes.dim, embedding_dim=sizes.input_dim, num_layers=num_layers)
            ),
            Sizes(3, 6, 2, 3, seed=1),
        )


def test_the_source_sets_the_number_of_edge_types():
    assert build().num_types == 3 and build(Tokens(7)).num_types == 1
    assert build(layer={"name": "graph_lstm", "num_types": 5}).num_types == 5


def test_levels_end_in_the_bodys_output_and_padding_is_zero():
    body = build(num_layers=2)
    words = torch.tensor([[1, 2, 3, 4], [4, 5, 0, 0]])
    mask = torch.tensor([[True] * 4, [True, True, False, False]])
    inputs = GraphInputs(words, mask, batch_graphs([CHAIN, Graph(2, ((1, 0, 2),))]))
    x, _, hidden = body.levels(inputs)
    torch.testing.assert_close(x[0], body.embedding.weight[words[0]])
    torch.testing.assert_close(body(inputs)[0], hidden)
    assert hidden.shape == (2, 4, 4) and not hidden[1, 2:].any()
    assert torch.equal(inputs.graphs.mask, mask)


def test_words_in_a_chain_are_read_like_an_lstm():
    body, cell = build(), LSTM(3, 4).double()
    cell.load_state_dict({name: value for name, value in body.layers[0].state_dict().items() if name != "type_offsets"})
    words = torch.tensor([[1, 2, 3, 4]])
    actual, _ = body(GraphInputs(words, None, batch_graphs([CHAIN])))
    torch.testing.assert_close(actual, Recurrent(cell)(body.embedding.weight[words])[0])


def test_nodes_may_be_vectors():
    body = build(GraphNodes(Vectors(5), 1))
    inputs = GraphInputs(torch.randn(1, 4, 5, dtype=torch.float64), None, batch_graphs([CHAIN]))
    torch.testing.assert_close(body(inputs)[0], body.layers[0](body.levels(inputs)[0], inputs.graphs).hidden)


def test_a_state_is_rejected():
    body = build()
    assert body.initial_state(2) is None and body.max_length is None
    with pytest.raises(UserError, match="a graph is read as a whole, so this body takes no state; call it without one"):
        body(GraphInputs(torch.zeros(1, 4, dtype=torch.long), None, batch_graphs([CHAIN])), state=())
