"""Torch's FlexAttention, compiled, on a GPU: documents, windows and linear biases without a mask or bias of query x
key.

If queries are aligned with their keys, each query sees one range of slots, first to last: real positions come first in
a row, and documents are contiguous. The ranges determine which blocks of keys a block of queries needs, so no mask of
single positions is ever built.
"""

import types
from collections.abc import Callable
from contextlib import nullcontext
from functools import lru_cache
from typing import Any

import torch
import torch.nn.attention.flex_attention as flex
import torch.nn.functional as F
from torch import Tensor

from clew.core.masks import Places
from clew.core.sight import Sight
from clew.kernels.attention_facts import Facts, product_type
from clew.kernels.capture import held_by_graphs

LONG = 256
"""Sequences shorter than this use a mask, which is small and needs no compilation."""
CAUSAL_BIASES: int | None = 1024
"""From this many queries on, causal linear biases are trained here. Shorter sequences, and all inference, use columns,
which need no compilation. With None, all sequences use columns."""
WINDOWS = True
"""Whether windows run here instead of as blocks of queries (`window_blocks`)."""
BLOCK = 128
SHAPES = 16
"""The maximum number of signatures that a process compiles; each takes some seconds. Further signatures use columns, a
mask or blocks of queries."""

_compiled: dict[tuple[object, ...], Callable[..., Any]] = {}
_refused: set[tuple[object, ...]] = set()


def takes_flex(facts: Facts) -> bool:
    if not facts.flex or facts.device != "cuda" or facts.tracing != "no" or facts.dropout:
        return False
    if not facts.aligned or facts.queries < LONG or facts.bias == "any":
        return False
    if (
        facts.dtype not in (torch.float16, torch.bfloat16, torch.float32)
        or not 16 <= facts.dim <= 256
        or facts.dim != facts.value_dim
    ):
        return False
    if facts.window is not None:
        return WINDOWS
    if facts.documents:
        return True
    if facts.bias == "none":
        return False
    return not facts.causal or (facts.gradient and CAUSAL_BIASES is not None and facts.queries >= CAUSAL_BIASES)


def has_room(query: Tensor, key: Tensor, value: Tensor, slopes: Tensor | None, scale: float) -> bool:
    """Whether this case is compiled already, or can be: not during a capture, and not beyond SHAPES."""
    shape = signature(query, key, value, slopes, scale)
    if shape in _compiled:
        return True
    return shape not in _refused and len(_compiled) < SHAPES and not is_capturing(query.device)


def flex_attention(
    query: Tensor, key: Tensor, value: Tensor, seen: Sight, slopes: Tensor | None, scale: float
) -> Tensor | None:
    """Return softmax(scale * Q K^T - slope * |i - j|) V over visible keys; None if the compiler fails in this case,
    which is not retried."""
    shape = signature(query, key, value, slopes, scale)
    if shape not in _compiled:
        _compiled[shape] = compile_anew(len(_compiled) + len(_refused))
    dtype, device = product_type(query), query.device.type
    query, key, value = query.to(dtype), key.to(dtype), value.to(dtype)
    # Compiled code is specialised to the autocast state, so always call it with autocast disabled.
    autocast = torch.is_autocast_enabled(device)
    try:
        with torch.autocast(device, dtype=torch.bfloat16, enabled=False) if autocast else nullcontext():
            return run_flex(_compiled[shape], query, key, value, seen, slopes, scale)
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, ValueError):  # any error of the compiler or its back ends
        if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
            raise  # the capture failed, not the compiler
        del _compiled[shape]
        _refused.add(shape)
        return None


def describe_shapes() -> str:
    """Describe how many signatures this process has compiled."""
    return f"{len(_compiled)} shapes compiled, {len(_refused)} refused"


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable[..., Tensor] | None,
    block_mask: flex.BlockMask,
    scale: float,
    enable_gqa: bool,
) -> Any:
    return flex.flex_attention(
        query, key, value, score_mod=score_mod, block_mask=block_mask, scale=scale, enable_gqa=enable_gqa
    )


def compile_anew(number: int) -> Callable[..., Any]:
    """Return a copy of `attend` to compile for one signature. torch.compile stops after a few compilations of one code
    object, so each signature has its own."""
    name = f"attend_{number}"
    own = types.FunctionType(attend.__code__.replace(co_name=name), attend.__globals__, name)
    compiled: Callable[..., Any] = torch.compile(own, dynamic=False, fullgraph=True)
    return compiled


def run_flex(
    attend: Callable[..., Any],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    seen: Sight,
    slopes: Tensor | None,
    scale: float,
) -> Tensor:
    batch, length, missing = query.shape[0], query.shape[2], -query.shape[2] % BLOCK
    if missing:  # F.pad copies even if nothing is padded
        query, key, value = (F.pad(part, (0, 0, 0, missing)) for part in (query, key, value))
    if seen.places.index.shape[0] == 1 and not seen.padded and not seen.documents:
        build = shared_mask.__wrapped__ if is_capturing(query.device) else shared_mask
        mask = build(batch, length, missing, seen.causal, seen.window, query.device)
    else:
        mask = mask_of(batch, seen, missing)
    bias = None if slopes is None else linear_bias(slopes.float())
    context: Tensor = attend(query, key, value, bias, mask, scale, query.shape[1] != key.shape[1])
    return context[:, :, :length] if missing else context


def signature(query: Tensor, key: Tensor, value: Tensor, slopes: Tensor | None, scale: float) -> tuple[object, ...]:
    """Return everything on which the compiled code depends."""
    batch, heads, length, dim = query.shape
    parts, cuda = (query, key, value), torch.backends.cuda.matmul
    # Padding or casting gives tensors their own strides.
    as_given = not length % BLOCK and query.dtype == product_type(query)
    return (
        *(
            batch,
            heads,
            key.shape[1],
            -(-length // BLOCK),
            dim,
            scale,
            product_type(query),
            query.device,
            slopes is None,
        ),
        *(part.stride() if as_given else None for part in parts),
        *(part.requires_grad for part in parts),
        *(torch.is_grad_enabled(), torch.is_inference_mode_enabled(), any(part.is_inference() for part in parts)),
        *(torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()),
        *(cuda.allow_tf32, cuda.allow_fp16_reduced_precision_reduction, cuda.allow_bf16_reduced_precision_reduction),
        *(torch.get_default_dtype(), torch.get_num_threads()),
    )


def is_capturing(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def linear_bias(slopes: Tensor) -> Callable[..., Tensor]:
    def add(score: Tensor, row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        # Convert before subtracting: query and key numbers are vectors, their difference is a matrix.
        return score - slopes[head] * (query.to(torch.float32) - key.to(torch.float32)).abs()

    return add


def mask_of(batch: int, seen: Sight, missing: int) -> flex.BlockMask:
    # The same layout whether or not rows share their places: another layout would be compiled again.
    first, last = (slots.int().expand(batch, -1).contiguous() for slots in seen_slots(seen, missing))
    return block_mask(first, last)


@held_by_graphs
@lru_cache(maxsize=32)
def shared_mask(
    batch: int, length: int, missing: int, causal: bool, window: int | None, device: torch.device
) -> flex.BlockMask:
    """Return the mask for full rows of one document each, cached for all layers and steps."""
    with torch.inference_mode(False):
        index = torch.arange(length, device=device)[None]
        return mask_of(
            batch, Sight(Places(index, torch.zeros_like(index)), index, causal, window, aligned=True), missing
        )


def seen_slots(seen: Sight, missing: int = 0) -> tuple[Tensor, Tensor]:
    """Return the first and last slot that each query sees (rows, length + missing). For a padded query the first is
    after the last."""
    index, start = seen.places.index, seen.places.start
    real, length = index >= 0, index.shape[1]
    first = start if seen.documents else torch.zeros_like(index)
    if seen.causal:
        last = index
    else:
        slots = torch.arange(length, device=index.device)
        ends = torch.ones_like(real)
        ends[:, :-1] = ~real[:, 1:]
        if seen.documents:
            ends[:, :-1] |= start[:, 1:] != start[:, :-1]
        last = torch.where(ends, slots, length).flip(1).cummin(1).values.flip(1)
    if seen.window is not None:
        first = torch.maximum(first, index - seen.window)
        last = torch.minimum(last, index + seen.window)
    first, last = torch.where(real, first, length + missing), torch.where(real, last, -1)
    return F.pad(first, (0, missing), value=length + missing), F.pad(last, (0, missing), value=-1)


def block_mask(first: Tensor, last: Tensor) -> flex.BlockMask:
    """Build the block mask from ranges (batch, length): which key blocks a query block sees partly, and which
    completely."""
    blocks = first.shape[1] // BLOCK
    firsts, lasts = first.unflatten(1, (blocks, BLOCK)), last.unflatten(1, (blocks, BLOCK))
    starts = torch.arange(0, blocks * BLOCK, BLOCK, device=first.device)  # first slots of the key blocks
    ends = starts + BLOCK - 1
    # (batch, query blocks, key blocks)
    some = (ends >= firsts.amin(2)[..., None]) & (starts <= lasts.amax(2)[..., None])
    whole = (starts >= firsts.amax(2)[..., None]) & (ends <= lasts.amin(2)[..., None])

    def is_seen(row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (key >= first[row, query]) & (key <= last[row, query])

    return flex.BlockMask.from_kv_blocks(*in_order(some & ~whole), *in_order(whole), BLOCK_SIZE=BLOCK, mask_mod=is_seen)


def in_order(chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Return the number of chosen key blocks per row of (batch, query blocks, key blocks), and the block numbers,
    chosen ones first, for one shared head."""
    order = chosen.int().argsort(dim=-1, descending=True, stable=True).int()
    return chosen.sum(-1, dtype=torch.int32)[:, None], order[:, None]
