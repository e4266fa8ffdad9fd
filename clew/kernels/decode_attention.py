"""One decoding step of causal self-attention over a buffer of keys and values, on a GPU. The kernel writes the new key
and value, and reads only the slots that a row has filled.

    K[n + 1], V[n + 1] = k, v                                     n positions were read before; slot 0 is for padding
    context = sum_{first <= j <= n} softmax_j(scale q . K[j + 1] - slope (n - j)) V[j + 1]

scaled_dot_product_attention would read the whole buffer under a mask, and would need another kernel for the write. A
long buffer is read in `splits` parallel parts, each with its own maximum and sum, which a second kernel joins.

Beams share common slots: with a table `places`, slot s of a row is read from slot `places[row, s]`, counted over
the slots of all rows, which may belong to another row. The new key and value are written into the row's own slot, and
the table is updated.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import torch
from torch import Tensor

from clew.kernels.ahead import launching

try:
    import triton
    import triton.language as tl

    from clew.kernels.ahead import wait_for_others
except ImportError:  # CPU builds of torch come without it
    triton = None

FEW, MANY = (64, 2), (16, 1)
"""The slots that a program reads together, and its warps. If few programs run, each must have many reads in flight."""
PROGRAMS = 528
"""Enough programs to fill a large GPU four times. With fewer rows and heads, the buffer is split."""
LEAST_SPLIT = 64
"""The minimum number of slots of a part: joining parts costs another kernel."""


def supports_decode_attention(x: Tensor, head_dim: int) -> bool:
    """Whether the kernel supports the device of x and heads of this width; gradients must be disabled."""
    return x.is_cuda and triton is not None and not torch.is_grad_enabled() and head_dim in (16, 32, 64, 128, 256)


def decode_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    keys: Tensor,
    values: Tensor,
    count: Tensor,
    first: Tensor,
    *,
    scale: float,
    slopes: Tensor | None = None,
    places: Tensor | None = None,
) -> Tensor:
    """Return the context (batch, heads, 1, dim).

    query is (batch, heads, 1, dim), key and value (batch, key heads, 1, dim), keys and values (batch, slots, key heads,
    dim). `count` and `first` (batch,) are the number of positions read before and the first visible position. `places`
    is (batch, slots).

    A row whose buffer is full gets NaN, which every decoding algorithm reports: a check on the host would cost more
    than the step.
    """
    batch, heads, _, dim = query.shape
    slots, key_heads = keys.shape[1], keys.shape[2]
    splits = max(1, min(slots // LEAST_SPLIT, -(-PROGRAMS // (batch * heads))))
    block, warps = FEW if batch * heads < 2 * PROGRAMS else MANY
    out = torch.empty(batch, heads, 1, dim, dtype=query.dtype, device=query.device)
    parts = torch.empty(batch, heads, splits, dim + 2, dtype=torch.float32, device=query.device) if splits > 1 else out
    assert places is None or (keys.is_contiguous() and values.is_contiguous() and places.is_contiguous())
    _attend[(batch * heads, splits)](
        query, key, value, keys, values, count, first,
        slopes if slopes is not None else query, places if places is not None else count, out, parts,
        *query.stride()[:2], *key.stride()[:2], *value.stride()[:2], *keys.stride()[:3], *values.stride()[:3],
        heads, slots, scale,
        GROUP=heads // key_heads, DIM=dim, BLOCK=block, SPLITS=splits, HAS_SLOPES=slopes is not None,
        HAS_PLACES=places is not None, num_warps=warps, **launching(),
    )  # fmt: skip
    if splits > 1:
        width = triton.next_power_of_2(splits)
        _join[(batch * heads,)](parts, out, DIM=dim, SPLITS=splits, WIDTH=width, num_warps=1, **launching())
    return out


if triton is not None:

    @triton.jit
    def _attend(
        query, key, value, keys, values, count, first, slopes, places, out, parts,
        q_batch, q_head, k_batch, k_head, v_batch, v_head,
        keys_batch, keys_slot, keys_head, values_batch, values_slot, values_head,
        heads, slots, scale,
        GROUP: tl.constexpr, DIM: tl.constexpr, BLOCK: tl.constexpr, SPLITS: tl.constexpr, HAS_SLOPES: tl.constexpr,
        HAS_PLACES: tl.constexpr, AHEAD: tl.constexpr,
    ):  # fmt: skip
        wait_for_others(AHEAD)
        row = tl.program_id(0) // heads
        head = tl.program_id(0) % heads
        split = tl.program_id(1)
        group = head // GROUP
        d = tl.arange(0, DIM)
        n = tl.load(count + row)
        begin = tl.load(first + row)
        q = tl.load(query + row * q_batch + head * q_head + d).to(tl.float32) * scale
        k = tl.load(key + row * k_batch + group * k_head + d)
        v = tl.load(value + row * v_batch + group * v_head + d)
        keys += group * keys_head
        values += group * values_head
        own_keys = keys + row.to(tl.int64) * keys_batch
        own_values = values + row.to(tl.int64) * values_batch
        if (split == 0) & (head % GROUP == 0) & (n + 1 < slots):
            tl.store(own_keys + (n + 1) * keys_slot + d, k.to(keys.dtype.element_ty))
            tl.store(own_values + (n + 1) * values_slot + d, v.to(values.dtype.element_ty))
            if HAS_PLACES:
                own = row.to(tl.int64) * slots + n + 1
                tl.store(places + own, own)
        if not HAS_PLACES:
            keys, values = own_keys, own_values
        slope = 0.0
        if HAS_SLOPES:
            slope = tl.load(slopes + head).to(tl.float32)
        # The first part sees the new position, from the arguments, since its slot may not be written yet.
        most = tl.where(split == 0, tl.sum(q * k.to(keys.dtype.element_ty).to(tl.float32), 0), float("-inf"))
        total = tl.where(split == 0, 1.0, 0.0)
        context = tl.where(split == 0, v.to(values.dtype.element_ty).to(tl.float32), 0.0)
        span = tl.cdiv(tl.cdiv(n - begin, SPLITS), BLOCK) * BLOCK
        start = begin + split * span
        stop = tl.minimum(start + span, n)
        for block in range(start, stop, BLOCK):
            j = block + tl.arange(0, BLOCK)
            is_read = j < stop
            at = (j + 1)[:, None]
            if HAS_PLACES:
                at = tl.load(places + row.to(tl.int64) * slots + at, mask=is_read[:, None], other=0)
            some = tl.load(keys + at * keys_slot + d[None, :], mask=is_read[:, None], other=0.0)
            # In flight while scores are summed.
            read = tl.load(values + at * values_slot + d[None, :], mask=is_read[:, None], other=0.0)
            scores = tl.sum(some.to(tl.float32) * q[None, :], 1) - slope * (n - j).to(tl.float32)
            scores = tl.where(is_read, scores, float("-inf"))
            higher = tl.maximum(most, tl.max(scores, 0))
            weights = tl.exp(scores - higher)
            decay = tl.exp(most - higher)
            context = context * decay + tl.sum(weights[:, None] * read.to(tl.float32), 0)
            total = total * decay + tl.sum(weights, 0)
            most = higher
        if SPLITS == 1:
            context = tl.where(n + 1 < slots, context / total, float("nan"))
            tl.store(out + tl.program_id(0) * DIM + d, context.to(out.dtype.element_ty))
        else:
            context = tl.where(n + 1 < slots, context, float("nan"))
            place = parts + (tl.program_id(0) * SPLITS + split) * (DIM + 2)
            tl.store(place + d, context)
            tl.store(place + DIM, most)
            tl.store(place + DIM + 1, total)

    @triton.jit
    def _join(parts, out, DIM: tl.constexpr, SPLITS: tl.constexpr, WIDTH: tl.constexpr, AHEAD: tl.constexpr):
        wait_for_others(AHEAD)
        d = tl.arange(0, DIM)
        split = tl.arange(0, WIDTH)
        is_part = split < SPLITS
        place = parts + (tl.program_id(0) * SPLITS + split) * (DIM + 2)
        most = tl.load(place + DIM, mask=is_part, other=float("-inf"))
        total = tl.load(place + DIM + 1, mask=is_part, other=0.0)
        contexts = tl.load(place[:, None] + d[None, :], mask=is_part[:, None], other=0.0)
        weights = tl.exp(most - tl.max(most, 0))
        context = tl.sum(weights[:, None] * contexts, 0) / tl.sum(weights * total, 0)
        tl.store(out + tl.program_id(0) * DIM + d, context.to(out.dtype.element_ty))
