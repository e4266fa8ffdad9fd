"""The block masks and ranges passed to FlexAttention, compared with the mask of single positions. Without a GPU it runs
uncompiled; the signatures for which it is compiled are counted with a back end that compiles nothing."""

import itertools

import pytest
import torch
import torch.nn.attention.flex_attention as flex
from torch._dynamo.utils import counters

from clew.core.masks import advance
from clew.core.sight import Sight
from clew.kernels import flex_attention as forms
from clew.kernels.flex_attention import BLOCK, block_mask, run_flex, seen_slots
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
    return Sight(
        places, places.index, causal, window, documents, mask is not None, True, places.start if documents else None
    )


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
def test_the_blocks_of_a_mask_are_those_with_visible_positions(mask, causal, window):
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
        expected = torch.softmax(scores.masked_fill(~seen.visible(), float("-inf")), -1) @ value.repeat_interleave(
            4 // heads, 1
        )
    real = real_queries(seen)
    torch.testing.assert_close(actual.transpose(1, 2)[real], expected.transpose(1, 2)[real], atol=1e-5, rtol=1e-5)


@pytest.fixture
def uncompiled(monkeypatch):
    """FlexAttention as traced by torch.compile but not compiled; yields the number of traced graphs."""
    compiled = torch.compile
    monkeypatch.setattr(torch, "compile", lambda function, **options: compiled(function, backend="eager", **options))
    monkeypatch.setattr(forms, "_compiled", {})
    monkeypatch.setattr(forms, "_refused", set())
    torch._dynamo.reset()
    counters.clear()
    yield lambda: counters["stats"]["unique_graphs"]
    torch._dynamo.reset()


def attend(batch, length=BLOCK, dtype=torch.float32):
    x = randn(batch, 2, length, 16).to(dtype)
    places, _ = advance(None, None, torch.zeros(batch, length, 1))
    seen = Sight(places, places.index, causal=True, aligned=True)
    slopes = ALiBi(32, 2, 16).slopes
    with torch.no_grad():
        assert forms.has_room(x, x, x, slopes, 0.3)
        context = forms.flex_attention(x, x, x, seen, slopes, 0.3)
    assert context is not None
    return context


def test_each_signature_is_compiled_once_past_the_limit_of_one_function(uncompiled):
    batches = range(1, torch._dynamo.config.recompile_limit + 4)
    assert len(batches) <= forms.SHAPES
    for _ in range(2):
        for batch in batches:
            attend(batch)
    assert uncompiled() == len(forms._compiled) == len(batches)


def test_autocast_and_layouts_do_not_recompile_a_signature(uncompiled):
    expected = attend(2, dtype=torch.bfloat16)
    for kind in (torch.bfloat16, torch.float16):
        with torch.autocast("cpu", kind, enabled=kind == torch.bfloat16):
            torch.testing.assert_close(attend(2, dtype=torch.bfloat16), expected)
    assert uncompiled() == 1
    with torch.autocast("cpu", torch.bfloat16):
        assert attend(2).dtype == torch.bfloat16
    assert uncompiled() == len(forms._compiled) == 2, "float32 that autocast rounds is another signature"
    attend(2, length=BLOCK - 3)
    attend(2, length=BLOCK - 5)
    assert uncompiled() == len(forms._compiled) == 3, "lengths with equal numbers of blocks share a signature"


def test_a_signature_refused_by_the_compiler_is_not_tried_again(uncompiled, monkeypatch):
    def refuse(*args, **options):
        raise RuntimeError("no such kernel")

    monkeypatch.setattr(forms, "compile_anew", lambda number: refuse)
    x = randn(1, 2, BLOCK, 16).float()
    places, _ = advance(None, None, torch.zeros(1, BLOCK, 1))
    seen = Sight(places, places.index, causal=True, aligned=True)
    assert forms.has_room(x, x, x, None, 0.3)
    assert forms.flex_attention(x, x, x, seen, None, 0.3) is None
    assert not forms.has_room(x, x, x, None, 0.3)
    assert forms.describe_shapes() == "0 shapes compiled, 1 refused"


def test_the_number_of_compiled_signatures_is_limited(uncompiled, monkeypatch):
    monkeypatch.setattr(forms, "SHAPES", 1)
    attend(1)
    x = randn(2, 2, BLOCK, 16).float()
    assert not forms.has_room(x, x, x, None, 0.3)
    attend(1)  # compiled signatures are kept


def test_the_mask_of_full_rows_is_made_once():
    cached_mask = forms.shared_mask.__wrapped__
    cached_mask.cache_clear()
    x = randn(2, 2, LENGTH, 16).float()
    for _ in range(2):
        run_flex(lambda query, *rest: query, x, x, x, sight(None, True, 60), None, 0.3)
    assert cached_mask.cache_info()[:2] == (1, 1)
    run_flex(lambda query, *rest: query, x, x, x, sight(RAGGED, True, 60), None, 0.3)
    assert cached_mask.cache_info()[:2] == (1, 1), "padded rows have their own mask"
