"""Attention weights of modules from other libraries, against requesting and computing them; the modules are left
unchanged."""

import pytest
import torch
from torch import nn

from clew.inspection.attention_weights import foreign_weights, shows_attention
from clew.layers.attending.heads import CROSS, DECODER, OWN


@pytest.mark.parametrize("batch_first", [True, False])
def test_an_encoders_weights_equal_a_direct_call_of_its_attention(batch_first):
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=batch_first)
    module = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False).eval()
    x = torch.randn(1, 5, 8) if batch_first else torch.randn(5, 1, 8)
    with torch.no_grad():
        (call,) = foreign_weights(module, lambda: module(x))
        _, expected = module.layers[0].self_attn(x, x, x, need_weights=True, average_attn_weights=False)
        after = module(x)
        torch.testing.assert_close(call.weights, expected[0])
        torch.testing.assert_close(after, module.layers[0](x))
    assert call.layer.heads == ["1.1", "1.2"] and not module.layers[0].self_attn._forward_hooks


def test_the_halves_of_a_transformer_are_distinguished():
    module = nn.Transformer(8, 2, 1, 2, 16, batch_first=True).eval()
    with torch.no_grad():
        calls = foreign_weights(module, lambda: module(torch.randn(1, 5, 8), torch.randn(1, 3, 8)))
    shapes = {(each.layer.kind, each.layer.number): tuple(each.weights.shape) for each in calls}
    assert shapes == {
        (OWN, 1): (2, 5, 5),
        (DECODER, 1): (2, 3, 3),
        (CROSS, 1): (2, 3, 5),
        (DECODER, 2): (2, 3, 3),
        (CROSS, 2): (2, 3, 5),
    }


@pytest.mark.parametrize(
    ("options", "shape"),
    [({}, (1, 4, 4)), ({"need_weights": False}, None), ({"average_attn_weights": False}, (1, 2, 4, 4))],
)
def test_callers_of_attention_get_the_weights_they_requested(options, shape):
    returned = []

    class Caller(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, x):
            y, weights = self.attention(x, x, x, **options)
            returned.append(weights)
            return y

    module, x = Caller().eval(), torch.randn(1, 4, 8)
    with torch.no_grad():
        (call,) = foreign_weights(module, lambda: module(x))
        module(x)
    watched, unwatched = returned
    assert call.weights.shape == (2, 4, 4)
    if shape is None:
        assert watched is None and unwatched is None
    else:
        assert watched.shape == shape
        torch.testing.assert_close(watched, unwatched)


def test_modules_without_attention_have_no_weights():
    assert not shows_attention(nn.LSTM(2, 2)) and shows_attention(nn.MultiheadAttention(4, 2))
