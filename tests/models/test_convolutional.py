import pytest
import torch
from torch import nn

from clew.core.errors import UserError
from clew.models.convolutional import ConvolutionalConfig, build_convolutional
from clew.sources.tokens import Tokens
from tests.models.translators import build, obeys_every_law
from tests.references.agreement import randomise


@pytest.mark.parametrize("position", ["sinusoidal", "none"])
def test_a_convolutional_model_obeys_the_laws_with_every_added_position(position):
    obeys_every_law(way="convolutional", position=position, num_layers=1)


def test_keys_are_the_encoders_output_and_values_add_the_embedding():
    body = randomise(build("convolutional")).eval()
    source = torch.tensor([[2, 3, 4]])
    levels = body.source_levels(source)
    keys, values = body.encode(source).values.chunk(2, -1)
    torch.testing.assert_close(keys, body.encoder.layers.layers[-1](levels[-2])[0])
    torch.testing.assert_close(values, 0.5**0.5 * (keys + levels[0]))


def test_a_decoder_sees_exactly_its_width_of_words_in_every_layer():
    body = randomise(
        build_convolutional(
            ConvolutionalConfig(dim=4, embedding_dim=3, num_layers=2, width=3, dropout=0.0), Tokens(7), Tokens(7)
        )
    ).eval()
    tokens = torch.randint(7, (1, 9))
    state = body.initial_state(1, body.encode(torch.tensor([[1, 2]])))
    hidden, _ = body(tokens, None, state)
    changed = tokens.clone()
    changed[0, 2] = (tokens[0, 2] + 1) % 7
    moved = (body(changed, None, state)[0] - hidden).abs().amax(-1)[0] > 0
    assert moved.nonzero().flatten().tolist() == [2, 3, 4, 5, 6]  # two layers, each reaching two words back


def test_the_encoders_gradient_is_divided_among_the_attending_layers():
    body = randomise(build("convolutional", decoder_layers=3)).eval()
    source = torch.tensor([[2, 3, 4]])
    x = body.source_levels(source)[0].detach()
    parameters = list(body.encoder.layers.parameters())
    whole = torch.autograd.grad(body.encoder.layers(x)[0].sum(), parameters)
    keys, _ = body.encode(source).values.chunk(2, -1)
    for third, all_of_it in zip(torch.autograd.grad(keys.sum(), parameters), whole, strict=True):
        torch.testing.assert_close(3 * third, all_of_it)


def test_the_input_keeps_its_scale_through_all_layers():
    """Section 3.4 and 3.5: scaling and initialisation hold the variance through many layers."""
    torch.manual_seed(0)
    body = build_convolutional(
        ConvolutionalConfig(dim=64, embedding_dim=64, num_layers=12, dropout=0.0, position="none"),
        Tokens(200),
        Tokens(200),
    ).eval()
    levels = [float(level.detach().std()) for level in body.source_levels(torch.randint(200, (8, 40)))[1:-1]]
    assert max(levels) < 4 * min(levels)


def test_a_convolutional_model_has_its_number_of_parameters_by_formula():
    config = ConvolutionalConfig(dim=6, embedding_dim=4, num_layers=2, decoder_layers=3, width=5, max_length=10)
    body = build_convolutional(config, Tokens(11), Tokens(9))
    window, linear, looking = 2 * 6 * (6 * 5 + 1), 6 * (4 + 1) + 4 * (6 + 1), 4 * (6 + 1) + 6 * (4 + 1)
    expected = (11 + 9 + 2 * 10) * 4 + 2 * linear + 2 * window + 3 * (window + looking)
    assert sum(parameter.numel() for parameter in body.parameters()) == expected
    assert not any(isinstance(part, nn.LSTM) for part in body.modules())


def test_invalid_settings_are_rejected_with_a_sentence():
    with pytest.raises(
        UserError,
        match="rotary positions act inside self-attention, and a convolutional model has none"
        "; use learned, sinusoidal or none",
    ):
        build("convolutional", position="rotary")
    with pytest.raises(UserError, match=r"width \(4\) must be at least 1, and odd unless the convolution is causal"):
        build("convolutional", width=4)
