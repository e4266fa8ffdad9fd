"""Scaled dot-product attention with torch: softmax(scale * Q K^T + bias) V, without holding the weights if the device
has such a kernel.

The form depends on the keys that each query may see (`Sight`) and on the device (`attention_form`):

    plain      no mask: everything is visible, or the causal triangle, even if rows are padded
    flex       FlexAttention on a GPU: documents, windows and linear biases
    columns    linear biases under a causal mask as extra columns of query and key
    tensor     a mask or bias of query x key
    blocks     the same for one block of queries at a time, if it is too large to hold
"""

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from clew.core.masks import Places
from clew.core.modes import is_exporting
from clew.core.sight import Sight
from clew.kernels.attention_facts import Facts, Kind, facts_of
from clew.kernels.flex_attention import flex_attention, has_room, takes_flex
from clew.kernels.linear_biases import BY_CUDNN, LONG, linear_bias, takes_columns, with_columns
from clew.kernels.query_blocks import block_size, query_blocks, takes_blocks
from clew.kernels.window_blocks import window_blocks

Form = Literal["plain", "flex", "columns", "tensor", "blocks"]

PLANNED = 512
"""cuDNN makes a new plan for each shape, which takes about 30 ms of CPU time per call. It is used only for shapes that
recur and benefit from it: unpadded sequences of at least this length, and documents packed into rows of such a length.
Ragged batches rarely repeat a shape."""
WITHOUT_CUDNN = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


def dot_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    scale: float,
    seen: Sight | Tensor | None,
    dropout: float = 0.0,
    bias: Callable[[], Tensor] | None = None,
    slopes: Tensor | None = None,
) -> Tensor:
    """Return the context (batch, heads, query, dim); keys and values may have fewer heads.

    `seen` is a Sight, a tensor that is True where a query may look, or None if every query sees every key. `bias`
    returns (batch, heads, query, key); with `slopes` c (heads,) it is -c |i - j|.
    """
    if not isinstance(seen, Sight):
        may_use_cudnn = seen is None and bias is None and may_plan(query, key)
        return with_tensor(
            query, key, value, scale=scale, visible=seen, dropout=dropout, bias=bias, plans=may_use_cudnn
        )
    width, columns = value.shape[-1], False
    if has_choice(query, slopes):
        facts = facts_of(query, key, value, seen, kind_of(bias, slopes), dropout)
        form, attend_alike = attention_form(facts), partial(attend_part, scale=scale, dropout=dropout, slopes=slopes)
        if form == "flex":
            context = (
                flex_attention(query, key, value, seen, slopes, scale)
                if has_room(query, key, value, slopes, scale)
                else None
            )
            if context is not None:
                return context
            if (blocks := window_blocks(query, key, value, seen)) is not None:
                return blocks.join(attend_alike(*blocks.arguments()))
            form = attention_form(facts._replace(flex=False))
        if form == "blocks":
            return query_blocks(attend_alike, query, key, value, seen, block_size(facts, bias=holds_bias(facts)))
        if form == "columns":
            assert slopes is not None
            query, key, value = with_columns(query, key, value, slopes, scale, seen.key_index, in_bits=query.is_cuda)
            bias, columns = None, True
    causal = seen.is_triangle and bias is None and not (seen.padded and is_exporting())
    visible = None if causal or seen.is_whole else seen.visible()
    recurs = not seen.padded if visible is None else seen.documents and seen.aligned
    may_use_cudnn = recurs and (BY_CUDNN or not columns) and may_plan(query, key)
    context = with_tensor(
        query, key, value, scale=scale, visible=visible, dropout=dropout, bias=bias, causal=causal, plans=may_use_cudnn
    )
    return context[..., :width] if columns else context


def has_choice(query: Tensor, slopes: Tensor | None) -> bool:
    """Whether forms other than `plain` and `tensor` are possible: not for few queries, as in a decoding step, nor in an
    exported program."""
    if is_exporting() or (torch.compiler.is_compiling() and slopes is None):
        return False
    return bool(query.shape[2] >= LONG)


def attention_form(facts: Facts) -> Form:
    """Choose the fastest form for these facts."""
    if takes_flex(facts):
        return "flex"
    columns = takes_columns(facts)
    if (facts.is_triangle or facts.is_whole) and (columns or facts.bias == "none"):
        return "columns" if columns else "plain"
    # A bias of any other kind is divided into blocks by the layer.
    if facts.bias != "any" and takes_blocks(facts, bias=holds_bias(facts)):
        return "blocks"
    return "columns" if columns else "tensor"


def holds_bias(facts: Facts) -> bool:
    """Whether a bias for every head must be held in memory, not only a mask."""
    return facts.bias != "none" and not takes_columns(facts)


def kind_of(bias: object, slopes: Tensor | None) -> Kind:
    return "linear" if slopes is not None else "none" if bias is None else "any"


def attend_part(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    places: Places,
    key_index: Tensor,
    seen: Sight,
    *,
    scale: float,
    dropout: float,
    slopes: Tensor | None,
) -> Tensor:
    """Attend from one block of queries, with its own mask and linear bias."""
    bias = None if slopes is None else partial(linear_bias, slopes.to(query.dtype), places.index, key_index)
    return dot_attention(query, key, value, scale=scale, seen=seen, dropout=dropout, bias=bias, slopes=slopes)


def with_tensor(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    scale: float,
    visible: Tensor | None,
    dropout: float,
    bias: Callable[[], Tensor] | None,
    causal: bool = False,
    plans: bool = False,
) -> Tensor:
    """Attend with a mask, or with a bias that is -inf at invisible keys."""
    if bias is not None:
        added = bias().to(query.dtype)
        visible = added if visible is None else added.masked_fill(~visible, float("-inf"))
    return attend(query, key, value, scale=scale, visible=visible, causal=causal, dropout=dropout, plans=plans)


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    scale: float,
    visible: Tensor | None,
    causal: bool,
    dropout: float,
    plans: bool,
) -> Tensor:
    """Call scaled_dot_product_attention in a form that its fast implementations support; `plans` allows cuDNN."""
    on_gpu = query.device.type == "cuda"
    half = query.dtype in (torch.float16, torch.bfloat16) or torch.is_autocast_enabled(query.device.type)
    batch, heads, length, _ = query.shape
    if key.shape[1] != heads and length == 1 and (visible is None or visible.shape[1] == 1):
        # One position: all queries of a group see the same keys, so they become the queries of one head.
        query = query.reshape(batch, key.shape[1], -1, query.shape[-1])
        causal = False
    elif key.shape[1] != heads and not (on_gpu and half and visible is None):
        # Of the memory-saving implementations only flash attention reads grouped heads, in half precision and without a
        # mask.
        repeats = heads // key.shape[1]
        key, value = key.repeat_interleave(repeats, 1), value.repeat_interleave(repeats, 1)
    width = value.shape[-1]
    # Memory-efficient attention reads vectors of 8.
    if on_gpu and visible is not None and (query.shape[-1] % 8 or width % 8):
        query, key, value = (F.pad(part, (0, -part.shape[-1] % 8)) for part in (query, key, value))

    def call() -> Tensor:
        return F.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=visible,
            dropout_p=dropout,
            is_causal=causal,
            scale=scale,
            enable_gqa=key.shape[1] != query.shape[1],
        )

    if not on_gpu or plans or not half or is_exporting():
        context = call()
    elif torch.compiler.is_compiling():
        with sdpa_kernel(WITHOUT_CUDNN):
            context = call()
    else:
        context = without_cudnn(call)
    context = context[..., :width] if value.shape[-1] != width else context
    return context if context.shape[1] == heads else context.reshape(batch, heads, length, width)


def may_plan(query: Tensor, key: Tensor) -> bool:
    # An exported program must not depend on one length.
    return query.is_cuda and not is_exporting() and bool(query.shape[2] == key.shape[2] >= PLANNED)


def without_cudnn(call: Callable[[], Tensor]) -> Tensor:
    """Do the same as `sdpa_kernel(WITHOUT_CUDNN)`, whose overhead exceeds the cost of a small attention."""
    if not torch.backends.cuda.cudnn_sdp_enabled():
        return call()
    torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        return call()
    finally:
        torch.backends.cuda.enable_cudnn_sdp(True)
