import itertools
import sys

import pytest
import torch

from clew.core.masks import Places, advance
from clew.core.sight import Sight
from clew.kernels.dot_attention import dot_attention
from clew.kernels.linear_biases import LONG, with_columns
from clew.layers.positions import ALiBi
from tests.references.agreement import randn


@pytest.mark.parametrize(("biased", "masked", "heads"), list(itertools.product([False, True], [False, True], [1, 2])))
def test_dot_attention_is_a_softmax_over_visible_keys(biased, masked, heads):
    query, key, value = randn(2, 2, 4, 3), randn(2, heads, 4, 3, seed=1), randn(2, heads, 4, 3, seed=2)
    bias = randn(1, 2, 4, 4, seed=3) if biased else None
    visible = torch.tensor([True, True, False, True])[None, None, None] if masked else None
    scores = 0.7 * query @ key.expand(-1, 2, -1, -1).mT + (bias if biased else 0.0)
    if visible is not None:
        scores = scores.masked_fill(~visible, float("-inf"))
    expected = torch.softmax(scores, -1) @ value.expand(-1, 2, -1, -1)
    actual = dot_attention(query, key, value, scale=0.7, seen=visible, bias=None if bias is None else lambda: bias)
    torch.testing.assert_close(actual, expected)


def random_inputs(
    length: int, mask: torch.Tensor | None, causal: bool, dtype: torch.dtype = torch.float64, kv_heads: int = 4
):
    query, key, value = (
        randn(2, heads, length, 8, seed=seed).to(dtype).requires_grad_()
        for heads, seed in ((4, 0), (kv_heads, 1), (kv_heads, 2))
    )
    places, _ = advance(None, mask, torch.zeros(2, length, 1))
    documents = mask is not None and mask.dtype != torch.bool
    seen = Sight(
        places, places.index, causal, None, documents, mask is not None, True, places.start if documents else None
    )
    return query, key, value, seen


def equation(query, key, value, scale, visible, bias=0.0):
    key, value = (part.repeat_interleave(query.shape[1] // part.shape[1], 1) for part in (key, value))
    return torch.softmax((scale * query @ key.mT + bias).masked_fill(~visible, float("-inf")), -1) @ value


def assert_same(expected, actual, inputs, real, near):
    """Values and gradients at real positions."""
    is_real = torch.ones(expected.shape[0], expected.shape[2], dtype=torch.bool) if real is None else real
    weights = randn(*expected.shape, seed=9).to(expected.dtype) * is_real[:, None, :, None]
    torch.testing.assert_close(
        torch.where(weights != 0, actual, 0), torch.where(weights != 0, expected, 0), atol=near, rtol=near
    )
    for one, other in zip(
        torch.autograd.grad((expected * weights).sum(), inputs),
        torch.autograd.grad((actual * weights).sum(), inputs),
        strict=True,
    ):
        torch.testing.assert_close(other, one, atol=near, rtol=near)


RAGGED = torch.arange(LONG)[None] < torch.tensor([[LONG], [LONG - 50]])
DOCUMENTS = RAGGED * (1 + (torch.arange(LONG) >= 40).long() + (torch.arange(LONG) >= 70).long())


@pytest.mark.parametrize(
    ("mask", "causal", "kv_heads"), list(itertools.product([None, RAGGED, DOCUMENTS], [True, False], [1, 4]))
)
def test_visibility_by_index_equals_a_mask_in_values_and_gradients(mask, causal, kv_heads):
    query, key, value, seen = random_inputs(LONG, mask, causal, kv_heads=kv_heads)
    slot = torch.arange(LONG)
    visible = torch.ones(2, 1, LONG, LONG, dtype=torch.bool)
    if causal:
        visible &= slot[:, None] >= slot
    real = None
    if mask is not None:
        real = mask > 0
        visible &= (mask[:, None, :, None] == mask[:, None, None, :]) | ~real[:, None, :, None]
    expected = equation(query, key, value, 0.4, visible)
    assert_same(expected, dot_attention(query, key, value, scale=0.4, seen=seen), (query, key, value), real, near=1e-9)


@pytest.mark.parametrize(("mask", "kv_heads"), list(itertools.product([None, RAGGED, DOCUMENTS], [1, 4])))
def test_linear_biases_as_columns_equal_a_bias_in_values_and_gradients(mask, kv_heads):
    query, key, value, seen = random_inputs(LONG, mask, True, kv_heads=kv_heads)
    slopes, slot = ALiBi(8, 4, 8).slopes.double(), torch.arange(LONG)
    bias = -slopes[:, None, None] * (slot[:, None] - slot).abs()
    expected = equation(query, key, value, 0.4, seen.visible(), bias)
    bias_calls = []
    actual = dot_attention(
        query, key, value, scale=0.4, seen=seen, bias=lambda: bias_calls.append(1) or bias, slopes=slopes
    )
    assert not bias_calls
    assert_same(expected, actual, (query, key, value), None if mask is None else mask > 0, near=1e-9)


@pytest.mark.parametrize("heads", [4, 12])
def test_linear_biases_in_columns_of_eight_bits_are_exact_at_length_4096(heads):
    """What a GPU multiplies: each column is exact in bfloat16, and their products add up to the bias."""
    slopes = ALiBi(8, heads, 8).slopes
    nothing = torch.zeros(1, heads, 4096, 8)
    query, key, _ = with_columns(
        nothing, nothing[:, :1], nothing[:, :1], slopes, 0.125, torch.arange(4096)[None], in_bits=True
    )
    assert query.shape[-1] % 8 == 0
    for part in (query, key):
        assert torch.equal(part.bfloat16().float(), part)
    scores = 0.125 * query[0, :, 0].double() @ key[0, 0].double().T
    expected = slopes.double()[:, None] * torch.arange(-2047, 2049)
    torch.testing.assert_close(scores, expected, atol=1e-4, rtol=0)


def test_linear_biases_in_float32_are_exact_to_5e_5_at_length_2048():
    query, key, value, seen = random_inputs(2048, None, True, torch.float32)
    slopes, slot = ALiBi(8, 4, 8).slopes, torch.arange(2048)
    actual = dot_attention(query, key, value, scale=0.35, seen=seen, bias=None, slopes=slopes)
    with torch.no_grad():
        bias = -slopes.double()[:, None, None] * (slot[:, None] - slot)
        expected = equation(query.double(), key.double(), value.double(), 0.35, seen.visible(), bias)
        torch.testing.assert_close(actual.double(), expected, atol=5e-5, rtol=5e-5)


def test_half_precision_on_the_cpu_and_non_causal_attention_use_the_bias():
    bias = torch.zeros(1, 4, LONG, LONG)
    for causal, dtype in ((True, torch.bfloat16), (False, torch.float64)):
        query, key, value, seen = random_inputs(LONG, None, causal, dtype)
        bias_calls = []
        dot_attention(
            query,
            key,
            value,
            scale=0.4,
            seen=seen,
            bias=lambda to=bias_calls: to.append(1) or bias,
            slopes=torch.ones(4),
        )
        assert bias_calls


def test_padding_in_bidirectional_attention_is_one_row_of_the_mask():
    index = torch.tensor([[0, 1, -1], [-1, -1, -1]])
    seen = Sight(Places(index, torch.zeros_like(index)), index, False, padded=True, aligned=True)
    assert seen.visible().tolist() == [[[[True, True, False]]], [[[True, True, True]]]]


@pytest.mark.parametrize("masked", [True, False])
def test_one_query_of_each_head_of_a_group_reads_the_groups_keys_in_values_and_gradients(masked):
    query, key, value = (
        randn(2, heads, length, 8, seed=heads).requires_grad_() for heads, length in ((4, 1), (2, 9), (2, 9))
    )
    visible = torch.arange(9) < torch.tensor([9, 5])[:, None, None, None]
    expected = equation(query, key, value, 0.4, visible if masked else torch.ones_like(visible))
    assert_same(
        expected,
        dot_attention(query, key, value, scale=0.4, seen=visible if masked else None),
        (query, key, value),
        None,
        near=1e-9,
    )


def test_linear_biases_are_exact_under_autocast_too():
    query, key, value, seen = random_inputs(LONG, None, True, torch.float32)
    slopes, slot = ALiBi(8, 4, 8).slopes, torch.arange(LONG)
    bias = -slopes[:, None, None] * (slot[:, None] - slot)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        actual = dot_attention(query, key, value, scale=0.4, seen=seen, bias=lambda: bias, slopes=slopes)
    expected = equation(query, key, value, 0.4, seen.visible(), bias)
    torch.testing.assert_close(actual.float(), expected.detach(), atol=0.05, rtol=0.05)


@pytest.mark.parametrize(
    ("mask", "causal", "window", "biased"),
    list(itertools.product([None, DOCUMENTS], [True, False], [None, 5], [True, False])),
)
def test_attention_refused_by_flex_runs_in_blocks_with_equal_values_and_gradients(
    monkeypatch, mask, causal, window, biased
):
    """As on a GPU that cannot compile another signature, for a mask that is too large."""
    chooser = sys.modules[dot_attention.__module__]
    monkeypatch.setattr(chooser, "takes_flex", lambda facts: facts.flex and facts.aligned)
    monkeypatch.setattr(chooser, "flex_attention", lambda *arguments: None)
    monkeypatch.setattr(chooser, "takes_blocks", lambda facts, bias: facts.queries > 48)
    monkeypatch.setattr(chooser, "block_size", lambda facts, bias: 48)
    query, key, value, seen = random_inputs(LONG, mask, causal, kv_heads=2)
    seen = seen._replace(window=window)
    slopes, slot = ALiBi(8, 4, 8).slopes.double(), torch.arange(LONG)
    bias = -slopes[:, None, None] * (slot[:, None] - slot).abs() if biased else None
    expected = equation(query, key, value, 0.4, seen.visible(), 0.0 if bias is None else bias)
    actual = dot_attention(
        query,
        key,
        value,
        scale=0.4,
        seen=seen,
        bias=(lambda: bias) if biased else None,
        slopes=slopes if biased else None,
    )
    assert_same(expected, actual, (query, key, value), None if mask is None else mask > 0, near=1e-9)
