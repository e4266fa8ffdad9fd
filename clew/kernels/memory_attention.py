"""Attention of a few queries per sentence over the sentence's memory, on a GPU: a decoder step, in which the beams of a
sentence are its queries.

    context_i = sum_j softmax_j(scale q_i . k_j) v_j    over real places j, or over all places of a sentence that has
                                                        no real place

A program handles all queries of one sentence and head, so keys and values are read once, and loops over blocks of
places up to the last real one. scaled_dot_product_attention would need a bias of sentences x places, built by several
kernels in every step.
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

MOST_QUERIES = 16
"""The maximum number of queries of a sentence; also the rows of the smallest tensor core product."""
BLOCK, ENTRIES = 64, 4096
"""The maximum number of places that a program reads together, and of entries of their keys: with wide heads, a program
reads fewer places."""
WARPS = 4
PRECISIONS = {torch.float32: ("ieee", "ieee"), torch.bfloat16: ("tf32", "tf32x3"), torch.float16: ("tf32", "tf32x3")}
"""The precision of the products q k and w v, by the dtype of q, k and v. TF32 represents two-byte numbers exactly, so q
k loses nothing; the weights w are float32 and are multiplied in parts."""


def supports_memory_attention(query: Tensor, keys: Tensor, values: Tensor) -> bool:
    """Whether the kernel supports these tensors and their device; gradients must be disabled."""
    return query.is_cuda and triton is not None and not torch.is_grad_enabled() and has_form(query, keys, values)


def has_form(query: Tensor, keys: Tensor, values: Tensor) -> bool:
    """Whether the number of queries, the dtype and the width are supported."""
    dim, all_three = query.shape[-1], (query, keys, values)
    is_alike = all(part.dtype == query.dtype and part.shape[-1] == dim and part.stride(-1) == 1 for part in all_three)
    is_few = 1 <= query.shape[2] <= MOST_QUERIES and keys.numel() > 0
    return is_alike and is_few and query.dtype in PRECISIONS and dim in (16, 32, 64, 128, 256)


def memory_attention(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, *, scale: float) -> Tensor:
    """Return the context (sentences, heads, queries, dim), in a layout in which joining the heads of a query copies
    nothing.

    query is (sentences, heads, queries, dim), keys and values (sentences, key heads, places, dim), each key head shared
    by a group; `mask` (sentences or 1, places) is True at real places.
    """
    sentences, heads, queries, dim = query.shape
    key_heads, places = keys.shape[1:3]
    out = torch.empty(sentences, queries, heads, dim, dtype=query.dtype, device=query.device)
    between = (0, 0) if mask is None else mask.expand(sentences, places).stride()
    compared, summed = PRECISIONS[query.dtype]
    block = max(16, min(BLOCK, ENTRIES // dim, triton.next_power_of_2(places)))
    _attend[(sentences, heads)](
        query, keys, values, keys if mask is None else mask, out,
        *query.stride()[:3], *keys.stride()[:3], *values.stride()[:3], *between,
        queries, heads, places, scale,
        GROUP=heads // key_heads, DIM=dim, QUERIES=MOST_QUERIES, BLOCK=block, HAS_MASK=mask is not None,
        COMPARED=compared, SUMMED=summed, num_warps=WARPS, **launching(),
    )  # fmt: skip
    return out.transpose(1, 2)


if triton is not None:

    @triton.jit
    def _attend(
        query, keys, values, mask, out,
        q_sentence, q_head, q_query, k_sentence, k_head, k_place,
        v_sentence, v_head, v_place, mask_sentence, mask_place,
        queries, heads, places, scale,
        GROUP: tl.constexpr, DIM: tl.constexpr, QUERIES: tl.constexpr, BLOCK: tl.constexpr, HAS_MASK: tl.constexpr,
        COMPARED: tl.constexpr, SUMMED: tl.constexpr, AHEAD: tl.constexpr,
    ):  # fmt: skip
        wait_for_others(AHEAD)
        sentence = tl.program_id(0).to(tl.int64)
        head = tl.program_id(1)
        i = tl.arange(0, QUERIES)[:, None]
        j = tl.arange(0, BLOCK)
        d = tl.arange(0, DIM)[None, :]
        query += sentence * q_sentence + head * q_head
        keys += sentence * k_sentence + head // GROUP * k_head
        values += sentence * v_sentence + head // GROUP * v_head
        q = tl.load(query + i * q_query + d, mask=i < queries, other=0.0).to(tl.float32)
        stop = places
        if HAS_MASK:
            mask += sentence * mask_sentence
            ends = tl.zeros([BLOCK], dtype=tl.int32)
            for start in range(0, places, BLOCK):
                is_real = tl.load(mask + (start + j) * mask_place, mask=start + j < places, other=0) != 0
                ends = tl.where(is_real, start + j + 1, ends)
            last = tl.max(ends, 0)
            is_empty = last == 0
            stop = tl.where(is_empty, places, last)
        most = tl.full([QUERIES], float("-inf"), dtype=tl.float32)
        total = tl.zeros([QUERIES], dtype=tl.float32)
        context = tl.zeros([QUERIES, DIM], dtype=tl.float32)
        for start in range(0, stop, BLOCK):
            at = start + j
            is_seen = at < stop
            k = tl.load(keys + at[:, None] * k_place + d, mask=is_seen[:, None], other=0.0)
            v = tl.load(values + at[:, None] * v_place + d, mask=is_seen[:, None], other=0.0)
            if HAS_MASK:
                is_seen = is_seen & (is_empty | (tl.load(mask + at * mask_place, mask=is_seen, other=0) != 0))
            scores = scale * tl.dot(q, tl.trans(k.to(tl.float32)), input_precision=COMPARED)  # (queries, places)
            scores = tl.where(is_seen[None, :], scores, float("-inf"))
            higher = tl.maximum(most, tl.max(scores, 1))
            # A block of padding may precede a real place; both maxima are then -inf, and their difference would be NaN.
            shift = tl.where(higher == float("-inf"), 0.0, higher)
            weights = tl.exp(scores - shift[:, None])
            decay = tl.exp(most - shift)
            context = tl.dot(weights, v.to(tl.float32), context * decay[:, None], input_precision=SUMMED)
            total = total * decay + tl.sum(weights, 1)
            most = higher
        target = out + (sentence * queries + i) * heads * DIM + head * DIM + d
        tl.store(target, (context / total[:, None]).to(out.dtype.element_ty), mask=i < queries)
