"""torch's FlexAttention, compiled, on a GPU: documents, windows and linear biases without a mask or a bias of query x key.

Where queries stand beside their keys, each sees one range of slots, first to last: real positions come first in a row and a document lies
in one piece. Which blocks of keys a block of queries needs follows from the ranges, so that no mask of single positions is ever made.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.attention.flex_attention as flex
import torch.nn.functional as F
from torch import Tensor

from clew.core.sight import Sight
from clew.kernels.on_trial import are_asked_for

LONG = 256
"""Shorter sequences take a mask: it is small, and nothing is compiled for them."""
BLOCK = 128
SHAPES = 6
"""torch.compile makes code for each shape, up to this many, below the number at which it would give up. Further shapes take a mask."""

_compiled: dict[str, Callable[..., Any]] = {}
_shapes: set[tuple[object, ...]] = set()
_refused: set[tuple[object, ...]] = set()


def takes_flex(query: Tensor, key: Tensor, value: Tensor, seen: Sight, slopes: Tensor | None, dropout: float) -> bool:
    if (
        not are_asked_for()
        or query.device.type != "cuda"
        or dropout
        or torch.compiler.is_compiling()
        or not seen.aligned
        or query.shape[2] < LONG
    ):
        return False
    if query.dtype not in (torch.float16, torch.bfloat16, torch.float32) or not 16 <= query.shape[-1] <= 256:
        return False
    if query.shape[-1] != value.shape[-1] or not (query.dtype == key.dtype == value.dtype):
        return False
    if not seen.documents and seen.window is None and (seen.causal or slopes is None):
        return False  # plain attention, or linear biases that are columns
    shape = signature(query, key, slopes)
    return shape not in _refused and (shape in _shapes or len(_shapes) < SHAPES)


def flex_attention(query: Tensor, key: Tensor, value: Tensor, seen: Sight, slopes: Tensor | None, scale: float) -> Tensor | None:
    """softmax(scale * Q K^T - slope * |i - j|) V over what is seen; None where the compiler refuses the shape, which is not tried again."""
    shape = signature(query, key, slopes)
    _shapes.add(shape)
    if "flex" not in _compiled:
        _compiled["flex"] = torch.compile(flex.flex_attention, dynamic=False)
    try:
        return run_flex(_compiled["flex"], query, key, value, seen, slopes, scale)
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, ValueError):  # whatever the compiler and its back ends raise
        _refused.add(shape)
        return None


def describe_shapes() -> str:
    """How much was compiled in this process."""
    return f"{len(_shapes - _refused)} shapes compiled, {len(_refused)} refused"


def run_flex(
    attend: Callable[..., Any], query: Tensor, key: Tensor, value: Tensor, seen: Sight, slopes: Tensor | None, scale: float
) -> Tensor:
    length, missing = query.shape[2], -query.shape[2] % BLOCK
    query, key, value = (F.pad(part, (0, 0, 0, missing)) for part in (query, key, value))
    # Laid out alike whether rows share their places or not: another layout would be compiled anew.
    first, last = (slots.expand(query.shape[0], -1).contiguous() for slots in seen_slots(seen, missing))
    bias = None if slopes is None else linear_bias(slopes.float())
    grouped = query.shape[1] != key.shape[1]
    context: Tensor = attend(query, key, value, score_mod=bias, block_mask=block_mask(first, last), scale=scale, enable_gqa=grouped)
    return context[:, :, :length]


def signature(query: Tensor, key: Tensor, slopes: Tensor | None) -> tuple[object, ...]:
    """All that the compiled code depends on."""
    batch, heads, length, dim = query.shape
    blocks = -(-length // BLOCK)
    gradient = torch.is_grad_enabled() and query.requires_grad
    return (batch, heads, key.shape[1], blocks, dim, query.dtype, slopes is None, gradient, query.device)


def linear_bias(slopes: Tensor) -> Callable[..., Tensor]:
    def add(score: Tensor, row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return score - slopes[head] * (query - key).abs()

    return add


def seen_slots(seen: Sight, missing: int = 0) -> tuple[Tensor, Tensor]:
    """The first and the last slot that each query sees, (rows, length + missing); a padded query sees none: the first is after the last."""
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
    """Which blocks of keys hold what a block of queries sees, and which of them are seen whole, from ranges (batch, length)."""
    blocks = first.shape[1] // BLOCK
    firsts, lasts = first.unflatten(1, (blocks, BLOCK)), last.unflatten(1, (blocks, BLOCK))
    starts = torch.arange(0, blocks * BLOCK, BLOCK, device=first.device)  # slots at which blocks of keys begin
    ends = starts + BLOCK - 1
    some = (ends >= firsts.amin(2)[..., None]) & (starts <= lasts.amax(2)[..., None])  # (batch, query blocks, key blocks)
    whole = (starts >= firsts.amax(2)[..., None]) & (ends <= lasts.amin(2)[..., None])

    def is_seen(row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (key >= first[row, query]) & (key <= last[row, query])

    return flex.BlockMask.from_kv_blocks(*in_order(some & ~whole), *in_order(whole), BLOCK_SIZE=BLOCK, mask_mod=is_seen)


def in_order(chosen: Tensor) -> tuple[Tensor, Tensor]:
    """How many blocks each row of (batch, query blocks, key blocks) has, and their numbers before those of the others; one head for all."""
    order = chosen.int().argsort(dim=-1, descending=True, stable=True).int()
    return chosen.sum(-1, dtype=torch.int32)[:, None], order[:, None]
