"""Blocks of queries against the layer's equation; tests of windows show that scores are not stored."""

import itertools
import sys

import pytest
import torch

from clew.core.masks import advance
from clew.core.sight import Sight
from clew.kernels import only_equations, query_blocks
from clew.layers.attention import Attention, SelfAttention
from clew.layers.positions import POSITIONS
from clew.layers.scores import SCORES
from tests.references.agreement import randn, randomise

LENGTH = 140
RAGGED = torch.arange(LENGTH)[None] < torch.tensor([[LENGTH], [45]])
DOCUMENTS = RAGGED * (1 + torch.arange(LENGTH) // 33)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    for name, value in {"LONG": 64, "SIZE": 16}.items():
        monkeypatch.setattr(sys.modules[query_blocks.__module__], name, value)


def outputs_and_gradients(layer, x, mask):
    inputs = x.clone().requires_grad_()
    real = torch.ones(x.shape[:2], dtype=torch.bool) if mask is None else mask > 0
    y = layer(inputs, mask)[0]
    weights = randn(*y.shape, seed=5) * real[..., None]
    return y[real], *torch.autograd.grad((y * weights).sum(), (inputs, *layer.parameters()), materialize_grads=True)


@pytest.mark.parametrize(
    ("parts", "causal", "mask"),
    list(
        itertools.product(
            [("relative", "scaled"), ("alibi", "scaled"), ("none", "additive")],
            [True, False],
            [None, RAGGED, DOCUMENTS],
        )
    ),
    ids=lambda x: None,
)
def test_attention_by_blocks_of_queries_equals_its_equation_in_values_and_gradients(parts, causal, mask):
    position, score = parts
    layer = randomise(
        SelfAttention(4, 2, causal=causal, position=POSITIONS[position](4, 2, 2), score=SCORES[score](2, 2))
    )
    x = randn(2, LENGTH, 4)
    fast = outputs_and_gradients(layer, x, mask)
    with only_equations():
        equation = outputs_and_gradients(layer, x, mask)
    for actual, expected in zip(fast, equation, strict=True):
        torch.testing.assert_close(actual, expected)


def test_the_same_weights_are_dropped_in_both_passes():
    """The context is A v and the gradient of its sum is A^T 1, so sum(v * gradient) is the context's sum if A is the
    same."""
    torch.manual_seed(0)
    attention = randomise(Attention(SCORES["additive"](4, 4), dropout=0.5))
    query, key, value = (
        randn(1, 1, LENGTH, 4, seed=1),
        randn(1, 1, LENGTH, 4, seed=2),
        randn(1, 1, LENGTH, 4).requires_grad_(),
    )
    places, _ = advance(None, None, torch.zeros(1, LENGTH, 1))
    seen = Sight(places, places.index, causal=True, aligned=True)
    context = query_blocks(attention, query, key, value, seen)
    (gradient,) = torch.autograd.grad(context.sum(), value)
    torch.testing.assert_close((value * gradient).sum(), context.sum())
    assert (context - query_blocks(attention.eval(), query, key, value, seen)).abs().max() > 0.1
