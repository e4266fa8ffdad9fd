import numpy as np
import pytest
import torch

from clew.core.errors import UserError
from clew.core.types import Memory
from clew.layers.gated_convolution import GatedConvolution, LookingConvolution
from tests.references import parts
from tests.references.agreement import assert_agrees, randn, randomise

LENGTHS = [4, 2]
MASK = torch.arange(4) < torch.tensor(LENGTHS)[:, None]


@pytest.mark.parametrize("causal", [True, False])
def test_a_gated_convolution_equals_its_equation_in_values_and_gradients(causal):
    layer = randomise(GatedConvolution(3, width=3, causal=causal))
    assert_agrees(layer, lambda x: layer(x)[0], lambda p, x: parts.gated_convolution(p, x, causal), randn(2, 5, 3))


def test_an_attending_convolution_equals_its_equations_in_values_and_gradients():
    layer = randomise(LookingConvolution(3, 2, width=3))

    def reference(p, x, values):
        places = [row[:n] for row, n in zip(values, LENGTHS, strict=True)]
        return parts.looking_convolution(p, x, places, 3)

    assert_agrees(
        layer,
        lambda x, values: layer(x, None, layer.initial_state(2, Memory(values, MASK), like=x))[0],
        reference,
        randn(2, 5, 3 + 2),
        randn(2, 4, 2 * 2, seed=1),
    )


def test_an_unpadded_source_is_scaled_by_its_length():
    layer = randomise(LookingConvolution(3, 2))
    x, values = randn(2, 3, 5), randn(2, 4, 4, seed=1)
    plain, _ = layer(x, None, layer.initial_state(2, Memory(values), like=x))
    masked, _ = layer(x, None, layer.initial_state(2, Memory(values, torch.ones(2, 4, dtype=torch.bool)), like=x))
    torch.testing.assert_close(plain, masked)


def test_the_word_passes_through_unchanged():
    layer = randomise(LookingConvolution(3, 2))
    x = randn(1, 4, 5)
    y, _ = layer(x, None, layer.initial_state(1, Memory(randn(1, 2, 4)), like=x))
    assert np.array_equal(y[..., 3:].detach().numpy(), x[..., 3:].numpy())


def test_invalid_settings_are_rejected_with_a_sentence():
    layer = LookingConvolution(3, 2)
    with pytest.raises(UserError, match="a decoder convolution attends to a source; give initial_state a memory"):
        layer.initial_state(1, like=torch.zeros(1))
    with pytest.raises(
        UserError, match="a decoder convolution reads its source from the state; start with initial_state"
    ):
        layer(torch.zeros(1, 1, 5))
