import pytest
import torch
from torch import nn

from clew.core.errors import UserError
from clew.layers.convolution import Convolution
from tests.references import parts
from tests.references.agreement import assert_agrees, randn, randomise


@pytest.mark.parametrize(("causal", "width"), [(True, 1), (True, 2), (True, 3), (False, 1), (False, 3), (False, 5)])
def test_a_convolution_equals_its_sum_in_values_and_gradients(causal, width):
    layer = randomise(Convolution(2, 3, width=width, causal=causal))
    assert_agrees(layer, lambda x: layer(x)[0], lambda p, x: parts.convolution(p, x, causal), randn(2, 4, 2))


def test_a_convolution_equals_torch():
    ours, theirs = randomise(Convolution(2, 3, width=3, causal=False)), nn.Conv1d(2, 3, 3, padding=1).double()
    theirs.load_state_dict(ours.state_dict())
    x = randn(2, 6, 2)
    torch.testing.assert_close(ours(x)[0], theirs(x.mT).mT)


def test_a_convolution_without_a_bias_maps_nothing_to_nothing():
    layer = Convolution(2, 3, bias=False)
    assert torch.equal(layer(torch.zeros(1, 4, 2))[0], torch.zeros(1, 4, 3))


@pytest.mark.parametrize(("width", "causal"), [(0, True), (2, False)])
def test_invalid_settings_are_rejected_with_a_sentence(width, causal):
    with pytest.raises(
        UserError, match=rf"width \({width}\) must be at least 1, and odd unless the convolution is causal"
    ):
        Convolution(2, 3, width=width, causal=causal)
