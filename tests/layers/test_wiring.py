import pytest
import torch
from torch import nn

from clew.core.errors import UserError
from clew.layers.attention import SelfAttention
from clew.layers.feedforward import FeedForward, Linear
from clew.layers.norms import RMSNorm
from clew.layers.sequence import Stack
from clew.layers.wiring import WIRINGS, Bypass, Highway, PostNorm, PreNorm, Residual
from tests.references import parts
from tests.references.agreement import assert_agrees, randn, randomise


@pytest.mark.parametrize("name", WIRINGS)
def test_a_connection_equals_its_equation_in_values_and_gradients(name):
    layer = randomise(WIRINGS[name](3, FeedForward(3, hidden_dim=4, activation="tanh")))

    def reference(p, x):
        return parts.wiring(name, p, x, lambda inner, inputs: parts.feedforward(inner, inputs, "tanh"))

    assert_agrees(layer, lambda x: layer(x)[0], reference, randn(2, 3, 3))


def test_features_passed_beside_a_layer_follow_its_output():
    inner = FeedForward(2, hidden_dim=4)
    x = randn(2, 3, 5)
    layer = randomise(Bypass(5, inner, reads=2, keeps=4))
    assert layer.dim == 6
    torch.testing.assert_close(layer(x)[0], torch.cat([inner(x[..., :2])[0], x[..., 1:]], -1))
    torch.testing.assert_close(Bypass(5, inner, reads=2, keeps=0)(x)[0], inner(x[..., :2])[0])


def test_a_residual_connection_beside_a_layer_adds_the_first_input_features():
    inner = Linear(4, 2)
    x = randn(2, 3, 5)
    layer = randomise(Bypass(5, inner, reads=4, keeps=1, residual=True))
    torch.testing.assert_close(layer(x)[0], torch.cat([x[..., :2] + inner(x[..., :4])[0], x[..., 4:]], -1))


@pytest.mark.parametrize(("wiring", "norm_first"), [(PreNorm, True), (PostNorm, False)])
def test_a_transformer_block_equals_torch(wiring, norm_first):
    attention, network = SelfAttention(6, 2, causal=False), FeedForward(6, hidden_dim=8)
    ours = randomise(Stack([wiring(6, attention), wiring(6, network)])).eval()
    theirs = nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True, norm_first=norm_first).double()
    with torch.no_grad():
        theirs.self_attn.in_proj_weight.copy_(
            torch.cat([attention.query.weight, attention.key.weight, attention.value.weight])
        )
        theirs.self_attn.in_proj_bias.copy_(torch.cat([attention.query.bias, attention.key.bias, attention.value.bias]))
        pairs = [
            (theirs.self_attn.out_proj, attention.output),
            (theirs.linear1, network.inner),
            (theirs.linear2, network.outer),
            (theirs.norm1, ours.layers[0].norm),
            (theirs.norm2, ours.layers[1].norm),
        ]
        for their, our in pairs:
            their.weight.copy_(our.weight)
            their.bias.copy_(our.bias)
    x, mask = randn(2, 5, 6), torch.tensor([[True] * 5, [True] * 2 + [False] * 3])
    torch.testing.assert_close(ours(x, mask)[0][mask], theirs(x, src_key_padding_mask=~mask)[mask])


@pytest.mark.parametrize("name", WIRINGS)
def test_dropout_applies_to_the_layers_output_and_not_to_the_shortcut(name):
    layer = randomise(WIRINGS[name](3, FeedForward(3), dropout=0.5))
    layer.dropout.p = 1.0
    x = randn(2, 4, 3)
    nothing = torch.zeros_like(x)
    expected = {
        "plain": lambda: nothing,
        "residual": lambda: x,
        "pre_norm": lambda: x,
        "post_norm": lambda: layer.norm(x),
        "highway": lambda: (1 - torch.sigmoid(layer.transform(x))) * x,
        "dense": lambda: torch.cat([x, nothing], -1),
    }[name]()
    torch.testing.assert_close(layer(x)[0], expected)


def test_a_new_highway_passes_most_of_its_input():
    layer = Highway(4, FeedForward(4))
    torch.testing.assert_close(torch.sigmoid(layer.transform.bias), torch.full((4,), 0.2689), atol=1e-4, rtol=0)


def test_the_norm_of_a_connection_is_chosen_by_name():
    norm = PreNorm(4, FeedForward(4), norm={"name": "rms", "eps": 0.5}).norm
    assert isinstance(norm, RMSNorm)
    assert norm.eps == 0.5


def test_invalid_settings_are_rejected_with_a_sentence():
    with pytest.raises(
        UserError, match=r"a Residual connection adds its input \(3 wide\) to its output \(4 wide\); make them equal"
    ):
        Residual(3, FeedForward(4))
    with pytest.raises(
        UserError, match=r"a residual connection adds inputs to outputs, so dim \(4\) must be at most reads \(3\)"
    ):
        Bypass(5, FeedForward(4), reads=3, keeps=1, residual=True)
    with pytest.raises(UserError, match=r"unknown norm 'layr'; did you mean 'layer'\? known: layer, none, rms"):
        PreNorm(4, FeedForward(4), norm="layr")
    with pytest.raises(UserError, match=r"unknown dropout_kind 'lockd'; did you mean 'locked'\? known: locked, plain"):
        Residual(4, FeedForward(4), dropout_kind="lockd")
