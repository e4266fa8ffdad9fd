"""The softmax over a vocabulary in a decoding step, which rarely needs all entries, on a GPU.

    log_softmax(z) = z - l,    l = log sum exp z        in float32
    best(z)        = argmax z, max z - l
    at(z, w)       = z_w - l

A row is read in parallel parts, each of which yields its maximum, the position of the maximum and its sum of
exponentials; every result is computed from these and the logits. NaN is never the maximum; a row that has one has l =
NaN.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from typing import NamedTuple

import torch
from torch import Tensor

from clew.kernels.ahead import launching

try:
    import triton
    import triton.language as tl

    from clew.kernels.ahead import wait_for_others
except ImportError:  # CPU builds of torch come without it
    triton = None

WIDE, NARROW = (4096, 8), (1024, 4)
"""The number of logits of a part, and of its warps, for many rows and for few."""
FLOATS = (torch.bfloat16, torch.float16, torch.float32)
PROGRAMS = 264
"""Enough programs to fill a large GPU twice."""


class Parts(NamedTuple):
    """For each part of each row (rows, parts): the maximum, the sum of exp(z - maximum), and the first position of the
    maximum."""

    most: Tensor
    total: Tensor
    place: Tensor


def flatten_rows(x: Tensor) -> Tensor:
    """Flatten x to (rows, width) with contiguous rows."""
    flat = x.reshape(-1, x.shape[-1])
    return flat if flat.stride(1) == 1 else flat.contiguous()


def parts_of(flat: Tensor) -> Parts:
    rows, width = flat.shape
    block, warps = WIDE if rows * triton.cdiv(width, WIDE[0]) >= PROGRAMS else NARROW
    count = triton.cdiv(width, block)
    most, total = torch.empty(2, rows, count, dtype=torch.float32, device=flat.device).unbind(0)
    place = torch.empty(rows, count, dtype=torch.int32, device=flat.device)
    _summed[(rows, count)](
        flat, most, total, place, flat.stride(0), width, count,
        BLOCK=min(block, triton.next_power_of_2(width)), num_warps=warps, **launching(),
    )  # fmt: skip
    return Parts(most, total, place)


def log_softmax(x: Tensor, parts: Parts | None = None) -> Tensor:
    """Return the log-softmax along the last axis, in float32."""
    flat = flatten_rows(x)
    rows, width = flat.shape
    most, total, _ = parts or parts_of(flat)
    out = torch.empty(x.shape, dtype=torch.float32, device=x.device)
    block, warps = WIDE
    _normalised[(rows, triton.cdiv(width, block))](
        flat, most, total, out, flat.stride(0), width, most.shape[1], BLOCK=min(block, triton.next_power_of_2(width)),
        PARTS=triton.next_power_of_2(most.shape[1]), num_warps=warps, **launching(),
    )  # fmt: skip
    return out


def best(parts: Parts) -> tuple[Tensor, Tensor]:
    """Return the most probable entry of each row (rows,) and its log-probability."""
    rows, count = parts.most.shape
    token = torch.empty(rows, dtype=torch.long, device=parts.most.device)
    log_prob = torch.empty(rows, dtype=torch.float32, device=parts.most.device)
    _best[(rows,)](*parts, token, log_prob, count, PARTS=triton.next_power_of_2(count), num_warps=1, **launching())
    return token, log_prob


def at(flat: Tensor, parts: Parts, tokens: Tensor) -> Tensor:
    """Return the log-probabilities of `tokens` (rows, entries)."""
    out = torch.empty(tokens.shape, dtype=torch.float32, device=flat.device)
    most, total, _ = parts
    _at[(tokens.numel(),)](
        flat, most, total, tokens.contiguous(), out, flat.stride(0), tokens.shape[1], most.shape[1],
        PARTS=triton.next_power_of_2(most.shape[1]), num_warps=1, **launching(),
    )  # fmt: skip
    return out


if triton is not None:

    @triton.jit
    def log_total(most, total, row, count, PARTS: tl.constexpr):
        """Return l of a row."""
        part = tl.arange(0, PARTS)
        tops = tl.load(most + row * count + part, mask=part < count, other=float("-inf"))
        sums = tl.load(total + row * count + part, mask=part < count, other=0.0)
        top = tl.max(tops, 0)
        top = tl.where(top == float("-inf"), 0.0, top)
        return top + tl.log(tl.sum(sums * tl.exp(tops - top), 0))

    @triton.jit
    def _summed(x, most, total, place, x_row, width, count, BLOCK: tl.constexpr, AHEAD: tl.constexpr):
        wait_for_others(AHEAD)
        row = tl.program_id(0).to(tl.int64)
        part = tl.program_id(1)
        at = part * BLOCK + tl.arange(0, BLOCK)
        z = tl.load(x + row * x_row + at, mask=at < width, other=float("-inf")).to(tl.float32)
        top = tl.max(tl.where(z == z, z, float("-inf")), 0)
        shift = tl.where(top == float("-inf"), 0.0, top)
        tl.store(most + row * count + part, top)
        tl.store(total + row * count + part, tl.sum(tl.exp(z - shift), 0))
        tl.store(place + row * count + part, tl.min(tl.where(z == top, at, 2147483647), 0))

    @triton.jit
    def _normalised(
        x, most, total, out, x_row, width, count, BLOCK: tl.constexpr, PARTS: tl.constexpr, AHEAD: tl.constexpr
    ):
        wait_for_others(AHEAD)
        row = tl.program_id(0).to(tl.int64)
        at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        z = tl.load(x + row * x_row + at, mask=at < width, other=0.0).to(tl.float32)
        tl.store(out + row * width + at, z - log_total(most, total, row, count, PARTS), mask=at < width)

    @triton.jit
    def _best(most, total, place, token, log_prob, count, PARTS: tl.constexpr, AHEAD: tl.constexpr):
        wait_for_others(AHEAD)
        row = tl.program_id(0).to(tl.int64)
        part = tl.arange(0, PARTS)
        tops = tl.load(most + row * count + part, mask=part < count, other=float("-inf"))
        top = tl.max(tops, 0)
        places = tl.load(place + row * count + part, mask=part < count, other=2147483647)
        first = tl.min(tl.where(tops == top, places, 2147483647), 0)
        tl.store(token + row, tl.where(top == float("-inf"), 0, first).to(tl.int64))
        tl.store(log_prob + row, top - log_total(most, total, row, count, PARTS))

    @triton.jit
    def _at(x, most, total, tokens, out, x_row, entries, count, PARTS: tl.constexpr, AHEAD: tl.constexpr):
        wait_for_others(AHEAD)
        number = tl.program_id(0).to(tl.int64)
        row = number // entries
        z = tl.load(x + row * x_row + tl.load(tokens + number)).to(tl.float32)
        tl.store(out + number, z - log_total(most, total, row, count, PARTS))
