"""Products of few rows with an int8 or int4 weight, on a GPU: each byte of the weight is read once and converted to
float in registers.

    y = s (x Q^T) + b          int8
    y = s (x (M C)^T) + b      int4: a byte holds the codes of column k and of column k + columns / 2

For 1 to 8 rows, with sums in float32.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import torch
from torch import Tensor

from clew.kernels.few_rows import MOST_ROWS
from clew.kernels.quantising import GROUP, Integers
from clew.kernels.vocabulary import FLOATS, flatten_rows

try:
    import triton
    import triton.language as tl
except ImportError:  # CPU builds of torch come without it
    triton = None


def is_for_few_rows(x: Tensor, weight: Integers) -> bool:
    rows = x.numel() // max(x.shape[-1], 1)
    return x.is_cuda and triton is not None and x.dtype in FLOATS and 0 < rows <= MOST_ROWS


def few_rows_product(x: Tensor, weight: Integers, bias: Tensor | None) -> Tensor:
    flat, codes = flatten_rows(x), weight.codes
    rows, width = len(flat), len(codes)
    out = torch.empty(*x.shape[:-1], width, dtype=x.dtype, device=x.device)
    block = 4 if width <= 1536 else 8 if width <= 8192 else 16
    step = min(512, triton.next_power_of_2(codes.shape[1]))
    multipliers = weight.multipliers
    _product[(triton.cdiv(width, block),)](
        flat, codes, codes if multipliers is None else multipliers,
        weight.scales, weight.scales if bias is None else bias, out,
        flat.stride(0), codes.stride(0), 0 if multipliers is None else multipliers.stride(0), width, codes.shape[1],
        ROWS=rows, BLOCK=block, STEP=step, GROUP=GROUP, IN_HALVES=multipliers is not None,
        HAS_BIAS=bias is not None, num_warps=4,
    )  # fmt: skip
    return out


if triton is not None:

    @triton.jit
    def _product(
        x, codes, multipliers, scales, bias, out, x_row, codes_row, multipliers_row, width, depth,
        ROWS: tl.constexpr, BLOCK: tl.constexpr, STEP: tl.constexpr, GROUP: tl.constexpr, IN_HALVES: tl.constexpr,
        HAS_BIAS: tl.constexpr,
    ):  # fmt: skip
        n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        k = tl.arange(0, STEP)
        is_output = n < width
        rows_of_codes = codes + n.to(tl.int64)[:, None] * codes_row
        rows_of_multipliers = multipliers + n.to(tl.int64)[:, None] * multipliers_row
        scale = tl.load(scales + n, mask=is_output, other=0.0).to(tl.float32)
        offset = tl.zeros([BLOCK], dtype=tl.float32)
        if HAS_BIAS:
            offset = tl.load(bias + n, mask=is_output, other=0.0).to(tl.float32)
        for row in tl.static_range(ROWS):
            sums = tl.zeros([BLOCK, STEP], dtype=tl.float32)
            for start in range(0, depth, STEP):
                at = start + k
                real = is_output[:, None] & (at < depth)[None, :]
                some = tl.load(rows_of_codes + at[None, :], mask=real, other=0).to(tl.int32)
                first = tl.load(x + row * x_row + at, mask=at < depth, other=0.0).to(tl.float32)
                if IN_HALVES:
                    second = tl.load(x + row * x_row + depth + at, mask=at < depth, other=0.0).to(tl.float32)
                    low_unit = tl.load(rows_of_multipliers + (at // GROUP)[None, :], mask=real, other=0).to(tl.float32)
                    high_unit = tl.load(rows_of_multipliers + ((depth + at) // GROUP)[None, :], mask=real, other=0).to(
                        tl.float32
                    )
                    low = ((some << 28) >> 28).to(tl.float32)  # sign-extend the low half
                    high = (some >> 4).to(tl.float32)
                    sums += low * low_unit * first[None, :] + high * high_unit * second[None, :]
                else:
                    sums += some.to(tl.float32) * first[None, :]
            total = tl.sum(sums, 1) * scale + offset
            tl.store(out + row * width + n, total.to(out.dtype.element_ty), mask=is_output)
