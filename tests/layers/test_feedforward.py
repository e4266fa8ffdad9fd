import pytest

from clew.core.errors import UserError
from clew.layers.feedforward import FeedForward, Readout
from tests.references import parts
from tests.references.agreement import assert_agrees, randn, randomise


@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "tanh", "swiglu"])
def test_a_feed_forward_network_equals_its_equation_in_values_and_gradients(activation):
    layer = randomise(FeedForward(3, hidden_dim=5, activation=activation))
    assert_agrees(layer, lambda x: layer(x)[0], lambda p, x: parts.feedforward(p, x, activation), randn(2, 3, 3))


@pytest.mark.parametrize("kind", ["tanh", "maxout"])
def test_a_readout_equals_its_equation_in_values_and_gradients(kind):
    layer = randomise(Readout(4, 3, kind=kind))
    assert_agrees(layer, lambda x: layer(x)[0], lambda p, x: parts.readout(p, x, kind), randn(2, 3, 4))


def test_an_unknown_activation_is_rejected():
    with pytest.raises(UserError, match=r"unknown readout 'maxot'; did you mean 'maxout'\? known: maxout, tanh"):
        Readout(3, 3, kind="maxot")
    with pytest.raises(
        UserError,
        match=r"unknown activation 'swigl'; did you mean 'swiglu'\? known: gelu, gelu_tanh, relu, silu, swiglu, tanh",
    ):
        FeedForward(3, activation="swigl")
