"""The block masks and ranges given to FlexAttention, compared with the mask of single positions. Without a GPU it runs uncompiled."""

import itertools

import pytest
import torch
import torch.nn.attention.flex_attention as flex

from clew.core.masks import advance
from clew.core.sight import Sight
from clew.kernels.flex_attention import BLOCK, LONG, block_mask, run_flex, seen_slots, takes_flex
from clew.layers.positions import ALiBi
from tests.references.agreement import randn

LENGTH = 3 * BLOCK - 20
SLOT = torch.arange(LENGTH)
RAGGED = SLOT[None] < torch.tensor([[LENGTH], [150]])
DOCUMENTS = RAGGED * (1 + (SLOT >= 30).long() + (SLOT >= 290).long())
CASES = list(itertools.product([None, RAGGED, DOCUMENTS], [True, False], [None, 60]))


def sight(mask, causal, window):
    places, _ = advance(None, mask, torch.zeros(2, LENGTH, 1))
    documents = mask is not None and mask.dtype != torch.bool
    return Sight(places, places.index, causal, window, documents, mask is not None, True, places.start if documents else None)


def real_queries(seen):
    return (seen.places.index >= 0).expand(2, -1)


@pytest.mark.parametrize(("mask", "causal", "window"), CASES)
def test_each_query_sees_one_range_of_slots(mask, causal, window):
    seen = sight(mask, causal, window)
    first, last = seen_slots(seen)
    ranges = (first[..., None] <= SLOT) & (last[..., None] >= SLOT)
    real = real_queries(seen)
    assert torch.equal(ranges.expand(2, -1, -1)[real], seen.visible()[:, 0].expand(2, LENGTH, LENGTH)[real])
    assert not ranges.expand(2, -1, -1)[~real].any()


@pytest.mark.parametrize(("mask", "causal", "window"), CASES)
def test_the_blocks_of_a_mask_are_those_that_hold_what_is_seen(mask, causal, window):
    seen = sight(mask, causal, window)
    first, last = (slots.expand(2, -1) for slots in seen_slots(seen, missing=20))
    slot = torch.arange(3 * BLOCK)
    ranges = ((slot >= first[..., None]) & (slot <= last[..., None])).view(2, 3, BLOCK, 3, BLOCK)
    mask_of_blocks = block_mask(first, last)
    assert torch.equal(mask_of_blocks.to_dense()[:, 0].bool(), ranges.any(4).any(2))
    whole = ranges.all(4).all(2)
    assert torch.equal(mask_of_blocks.full_kv_num_blocks[:, 0].long(), whole.sum(-1))


@pytest.mark.parametrize(("mask", "causal", "window"), CASES)
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("heads", [4, 2])
def test_flex_attention_equals_attention_with_a_mask_and_a_bias(mask, causal, window, heads):
    seen = sight(mask, causal, window)
    query, key, value = (
        randn(2, 4, LENGTH, 16).float(),
        randn(2, heads, LENGTH, 16, seed=1).float(),
        randn(2, heads, LENGTH, 16, seed=2).float(),
    )
    slopes = ALiBi(64, 4, 16).slopes
    with torch.no_grad():
        actual = run_flex(flex.flex_attention, query, key, value, seen, slopes, 0.3)
        bias = -slopes[:, None, None] * (SLOT[:, None] - SLOT).abs()
        scores = 0.3 * query @ key.repeat_interleave(4 // heads, 1).mT + bias
        expected = torch.softmax(scores.masked_fill(~seen.visible(), float("-inf")), -1) @ value.repeat_interleave(4 // heads, 1)
    real = real_queries(seen)
    torch.testing.assert_close(actual.transpose(1, 2)[real], expected.transpose(1, 2)[real], atol=1e-5, rtol=1e-5)


def test_flex_attention_is_left_to_a_gpu():
    seen = sight(DOCUMENTS, True, None)
    x = randn(2, 4, LENGTH, 16).float()
    assert LENGTH >= LONG
    assert not takes_flex(x, x, x, seen, None, 0.0)
