"""The forms of attention that only a GPU uses, against softmax(scale Q K^T + bias) V in float64, in values and
gradients."""

import itertools
import sys
import warnings

import pytest
import torch

from clew.core.masks import advance
from clew.core.sight import Sight
from clew.kernels import flex_attention as forms
from clew.kernels.attention_facts import facts_of
from clew.kernels.dot_attention import attention_form, dot_attention
from clew.layers.positions import ALiBi

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="these forms are taken on a GPU")
LENGTH, HEADS, DIM = 1024, 4, 64
ALLOWED = {torch.float32: 2e-5, torch.bfloat16: 2e-2}
SLOT = torch.arange(LENGTH)
RAGGED = SLOT[None] < torch.tensor([[LENGTH], [700]])
MASKS = {"full": None, "ragged": RAGGED, "documents": RAGGED * (1 + SLOT // 300)}


def random_inputs(mask, causal, window, dtype, kv_heads=HEADS):
    torch.manual_seed(0)
    parts = [
        torch.randn(2, heads, LENGTH, DIM, device="cuda").to(dtype).requires_grad_()
        for heads in (HEADS, kv_heads, kv_heads)
    ]
    mask = None if mask is None else mask.cuda()
    places, _ = advance(None, mask, torch.zeros(2, LENGTH, 1, device="cuda"))
    documents = mask is not None and mask.dtype != torch.bool
    seen = Sight(
        places, places.index, causal, window, documents, mask is not None, True, places.start if documents else None
    )
    return parts, seen


def results(context, parts, seen, weights):
    real = (seen.places.index >= 0)[:, None, :, None]
    total = (torch.where(real, context, 0).double() * weights).sum()
    return [torch.where(real, context, 0), *torch.autograd.grad(total, parts)]


def errors(parts, seen, slopes, attend):
    """Relative errors of the context and of the gradients of query, key and value."""
    weights = torch.randn(parts[0].shape, device="cuda", dtype=torch.float64)
    exact = [part.detach().double().requires_grad_() for part in parts]
    query, key, value = exact[0], *(part.repeat_interleave(HEADS // part.shape[1], 1) for part in exact[1:])
    scores = DIM**-0.5 * query @ key.mT
    if slopes is not None:
        slot = SLOT.cuda()
        scores = scores - slopes.double()[:, None, None] * (slot[:, None] - slot).abs()
    expected = results(scores.masked_fill(~seen.visible(), float("-inf")).softmax(-1) @ value, exact, seen, weights)
    actual = results(attend(*parts), parts, seen, weights)
    return [float((one.double() - other).norm() / other.norm()) for one, other in zip(actual, expected, strict=True)]


CASES = [
    (mask, causal, window, alibi)
    for mask, causal, window, alibi in itertools.product(MASKS, (True, False), (None, 100), (False, True))
    if alibi or window is not None or mask == "documents"
]


@pytest.mark.parametrize("flex", [True, False], ids=["flex", "without"])
@pytest.mark.parametrize("dtype", ALLOWED, ids=str)
@pytest.mark.parametrize(("mask", "causal", "window", "alibi"), CASES)
def test_each_form_equals_its_equation(monkeypatch, dtype, flex, mask, causal, window, alibi):
    """With FlexAttention, and with its replacement if it has no room."""
    monkeypatch.setattr(forms, "CAUSAL_BIASES", LENGTH)
    monkeypatch.setattr(forms, "WINDOWS", True)
    parts, seen = random_inputs(MASKS[mask], causal, window, dtype)
    slopes = ALiBi(HEADS * DIM, HEADS, DIM).slopes.cuda() if alibi else None
    if not flex:
        monkeypatch.setattr(sys.modules[dot_attention.__module__], "has_room", lambda *arguments: False)
    slot = SLOT.cuda()

    def attend(query, key, value):
        bias = (lambda: (-slopes[:, None, None] * (slot[:, None] - slot).abs())[None].to(dtype)) if alibi else None
        assert (
            not flex or attention_form(facts_of(query, key, value, seen, "linear" if alibi else "none", 0.0)) == "flex"
        )
        return dot_attention(query, key, value, scale=DIM**-0.5, seen=seen, bias=bias, slopes=slopes)

    # A bias rounded to bfloat16 has a relative error of 2^-9, as it would have in the equation.
    allowed = ALLOWED[dtype] * (5 if alibi and not flex else 1)
    assert max(errors(parts, seen, slopes, attend)) < allowed
    assert not forms._refused


@pytest.mark.parametrize("dtype", ALLOWED, ids=str)
@pytest.mark.parametrize("kv_heads", [HEADS, 1])
def test_columns_equal_the_bias(monkeypatch, dtype, kv_heads):
    monkeypatch.setattr(forms, "CAUSAL_BIASES", None)
    parts, seen = random_inputs(RAGGED, True, None, dtype, kv_heads)
    slopes = ALiBi(HEADS * DIM, HEADS, DIM).slopes.cuda()
    relative_errors = errors(
        parts, seen, slopes, lambda *parts: dot_attention(*parts, scale=DIM**-0.5, seen=seen, slopes=slopes)
    )
    assert max(relative_errors) < ALLOWED[dtype]


def test_more_signatures_than_torchs_limit_give_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for batch in range(1, torch._dynamo.config.recompile_limit + 3):
            x = torch.randn(batch, 1, 256, 16, device="cuda", dtype=torch.bfloat16)
            places, _ = advance(None, None, torch.zeros(batch, 256, 1, device="cuda"))
            seen = Sight(places, places.index, True, window=20, aligned=True)
            with torch.no_grad(), torch.autocast("cuda", torch.bfloat16, enabled=batch % 2 == 0):
                assert forms.flex_attention(x, x, x, seen, None, 0.25) is not None
    assert not forms._refused
