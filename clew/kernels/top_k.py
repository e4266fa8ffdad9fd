"""The top k of each row, on a GPU: of the log-probabilities of a vocabulary, or of the few candidates of a sentence.

    values, indices = sort(x, descending, stable)[:k]   of log softmax(x) if `parts` of its sum are given (`vocabulary`)

A wide row is read in parallel blocks, each of which finds its k best, and a second kernel selects the k best of those.
Entries are compared as integers, x in the upper half and the index in the lower: no two are equal, and of equal entries
the first is larger. torch.topk selects digit by digit, reading the row several times, and sorts in a separate kernel.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import torch
from torch import Tensor

from clew.kernels.ahead import launching
from clew.kernels.vocabulary import FLOATS, PROGRAMS, Parts, flatten_rows

try:
    import triton
    import triton.language as tl

    from clew.kernels.ahead import wait_for_others
    from clew.kernels.vocabulary import log_total
except ImportError:  # CPU builds of torch come without it
    triton = None

MOST = 64
"""The maximum k: a block finds its best entries one by one."""
WIDE, NARROW = 4096, 1024
"""The number of entries of a block, for many programs and for few."""


def takes_topk(x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> bool:
    """Whether the kernel can replace torch's function for these arguments."""
    is_plain = x.is_cuda and x.dtype in FLOATS and x.numel() > 0 and x.shape[-1] < 2**31
    return is_plain and dim in (-1, x.dim() - 1) and largest and 1 <= k <= min(MOST, x.shape[-1])


def topk(x: Tensor, k: int, normaliser: Parts | None = None) -> torch.return_types.topk:
    """Return the k largest entries along the last axis, best first; the first of equal entries wins, and NaN is
    largest. With a `normaliser` the values are those of log softmax(x), in float32."""
    flat = flatten_rows(x)
    rows, width = flat.shape
    values = torch.empty(*x.shape[:-1], k, dtype=x.dtype if normaliser is None else torch.float32, device=x.device)
    indices = torch.empty(values.shape, dtype=torch.long, device=x.device)
    block = WIDE if rows * triton.cdiv(width, WIDE) >= PROGRAMS else NARROW
    splits, padded_k = triton.cdiv(width, block), triton.next_power_of_2(k)
    parts = torch.empty(rows, splits, k, dtype=torch.long, device=x.device) if splits > 1 else indices
    most, total = (values, values) if normaliser is None else normaliser[:2]
    count = 1 if normaliser is None else most.shape[1]
    options = {
        "K": k,
        "KEPT": padded_k,
        "SUMS": triton.next_power_of_2(count),
        "NORMALISES": normaliser is not None,
        **launching(),
    }
    _best_of_block[(rows, splits)](
        flat, parts, values, indices, most, total, flat.stride(0), width, count,
        BLOCK=min(block, triton.next_power_of_2(width)), SPLITS=splits, num_warps=8 if block == WIDE else 4, **options,
    )  # fmt: skip
    if splits > 1:
        _best_of_parts[(rows,)](
            flat, parts, values, indices, most, total, flat.stride(0), splits * k, count,
            COUNT=triton.next_power_of_2(splits * k), num_warps=4, **options,
        )  # fmt: skip
    return torch.return_types.topk((values, indices))


if triton is not None:
    LEAST = tl.constexpr(-(2**63))

    @triton.jit
    def _numbers(z, index):
        """Encode entries and their indices as integers of the same order."""
        bits = tl.where(z == 0.0, 0.0, z).to(tl.int32, bitcast=True)  # -0.0 equals 0.0
        ordered = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
        ordered = tl.where(z != z, 0x7FFFFFFF, ordered)
        return (ordered.to(tl.int64) << 32) | (0x7FFFFFFF - index).to(tl.int64)

    @triton.jit
    def _largest(numbers, K: tl.constexpr, KEPT: tl.constexpr):
        """Return the K largest, in descending order."""
        place = tl.arange(0, KEPT)
        largest = tl.full([KEPT], LEAST, dtype=tl.int64)
        for i in range(K):
            top = tl.max(numbers, 0)
            largest = tl.where(place == i, top, largest)
            numbers = tl.where(numbers == top, LEAST, numbers)
        return largest

    @triton.jit
    def _write(
        x_row, numbers, values, indices, most, total, row, count,
        K: tl.constexpr, KEPT: tl.constexpr, SUMS: tl.constexpr, NORMALISES: tl.constexpr,
    ):  # fmt: skip
        place = tl.arange(0, KEPT)
        index = 0x7FFFFFFF - (numbers & 0x7FFFFFFF)
        z = tl.load(x_row + index, mask=place < K, other=0.0)
        if NORMALISES:
            z = z.to(tl.float32) - log_total(most, total, row, count, SUMS)
        tl.store(values + row * K + place, z, mask=place < K)
        tl.store(indices + row * K + place, index, mask=place < K)

    @triton.jit
    def _best_of_block(
        x, parts, values, indices, most, total, x_stride, width, count,
        BLOCK: tl.constexpr, SPLITS: tl.constexpr, K: tl.constexpr, KEPT: tl.constexpr, SUMS: tl.constexpr,
        NORMALISES: tl.constexpr, AHEAD: tl.constexpr,
    ):  # fmt: skip
        wait_for_others(AHEAD)
        row = tl.program_id(0).to(tl.int64)
        split = tl.program_id(1)
        index = split * BLOCK + tl.arange(0, BLOCK)
        z = tl.load(x + row * x_stride + index, mask=index < width, other=0.0).to(tl.float32)
        numbers = _largest(tl.where(index < width, _numbers(z, index), LEAST), K, KEPT)
        if SPLITS == 1:
            _write(x + row * x_stride, numbers, values, indices, most, total, row, count, K, KEPT, SUMS, NORMALISES)
        else:
            place = tl.arange(0, KEPT)
            tl.store(parts + (row * SPLITS + split) * K + place, numbers, mask=place < K)

    @triton.jit
    def _best_of_parts(
        x, parts, values, indices, most, total, x_stride, num_found, count,
        COUNT: tl.constexpr, K: tl.constexpr, KEPT: tl.constexpr, SUMS: tl.constexpr,
        NORMALISES: tl.constexpr, AHEAD: tl.constexpr,
    ):  # fmt: skip
        wait_for_others(AHEAD)
        row = tl.program_id(0).to(tl.int64)
        at = tl.arange(0, COUNT)
        numbers = tl.load(parts + row * num_found + at, mask=at < num_found, other=LEAST)
        best = _largest(numbers, K, KEPT)
        _write(x + row * x_stride, best, values, indices, most, total, row, count, K, KEPT, SUMS, NORMALISES)
