import pytest
import torch

from clew.core.errors import UserError
from clew.core.tree_batches import TreeInputs, batch_trees
from clew.core.tree_nodes import Nodes, head_nodes, phrase_nodes
from clew.data.syntax.trees import parse_tree
from clew.laws.cases import Sizes
from clew.laws.trees import TREE_LAWS, OverVectors
from clew.layers.cells import LSTM
from clew.layers.recurrent import Recurrent
from clew.layers.shapes.tree_lstm import TREE_LAYERS
from clew.models.tree_lstm import TreeLSTMConfig, build_tree_lstm
from clew.sources.tokens import Tokens

VOCABULARY = 7
DOG = phrase_nodes(parse_tree("(S (NP (DT the) (NN dog)) (VBZ barks))"))[1]


def build(**options):
    return build_tree_lstm(TreeLSTMConfig(**{"dim": 4, "embedding_dim": 3, **options}), Tokens(VOCABULARY)).double()


@pytest.mark.parametrize("layer", TREE_LAYERS)
def test_a_body_over_trees_obeys_the_laws_of_tree_layers(layer):
    for law in TREE_LAWS.values():
        law(
            lambda sizes: OverVectors(build(layer=layer, dim=sizes.dim, embedding_dim=sizes.input_dim)),
            Sizes(3, 7, 2, 3, seed=1),
        )


@pytest.mark.parametrize("layer", TREE_LAYERS)
def test_words_are_read_at_leaves_and_zeros_at_phrases(layer):
    body = build(layer=layer)
    words = torch.tensor([[1, 2, 3], [4, 0, 0]])
    trees = batch_trees([DOG, head_nodes([0])])
    inputs = TreeInputs(words, torch.tensor([[True] * 3, [True, False, False]]), trees)
    x, hidden = body.levels(inputs)
    torch.testing.assert_close(x[0, :3], body.embedding.weight[words[0]])
    assert not x[0, 3:].any() and not x[1, 1:].any()
    torch.testing.assert_close(body(inputs)[0], hidden)
    assert hidden.shape == (2, 5, 4) and not hidden[1, 1:].any()


def test_words_in_a_chain_are_read_like_an_lstm():
    body, cell = build(), LSTM(3, 4).double()
    cell.load_state_dict(body.layer.state_dict())
    words = torch.tensor([[1, 2, 3, 4]])
    chain = batch_trees([Nodes((1, 2, 3, -1), (0,) * 4)])
    torch.testing.assert_close(
        body(TreeInputs(words, None, chain))[0], Recurrent(cell)(body.embedding.weight[words])[0]
    )


def test_a_state_is_rejected():
    body = build()
    assert body.initial_state(2) is None and (body.max_children, build(layer="n_ary_lstm").max_children) == (None, 2)
    with pytest.raises(UserError, match="a tree is read as a whole, so this body takes no state; call it without one"):
        body(TreeInputs(torch.zeros(1, 1, dtype=torch.long), None, batch_trees([head_nodes([0])])), state=())
