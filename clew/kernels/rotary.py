"""Rotary positions for a few tokens on a GPU, in one kernel: (a, b) -> (a cos t - b sin t, b cos t + a sin t), t =
position * frequency."""

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


def supports_rotary(x: Tensor) -> bool:
    """Whether the kernel supports x, which must have one position per row: (batch, heads, 1, dim)."""
    half = x.shape[-1] // 2
    is_step = x.is_cuda and x.shape[2] == 1 and x.stride(3) == 1 and half & (half - 1) == 0
    return is_step and triton is not None and not torch.is_grad_enabled() and x.dtype != torch.float64


def rotary(x: Tensor, positions: Tensor, frequencies: Tensor) -> Tensor:
    """Rotate x (batch, heads, 1, dim) by `positions` (batch or 1, 1), with `frequencies` (dim / 2,) in float32."""
    batch, heads, _, dim = x.shape
    out = torch.empty(batch, heads, 1, dim, dtype=x.dtype, device=x.device)
    position_stride = positions.stride(0) if len(positions) > 1 else 0
    _rotate[(batch, heads)](
        x,
        positions,
        frequencies,
        out,
        x.stride(0),
        x.stride(1),
        position_stride,
        heads,
        HALF=dim // 2,
        num_warps=1,
        **launching(),
    )
    return out


if triton is not None:

    @triton.jit
    def _rotate(
        x, positions, frequencies, out, x_batch, x_head, position_stride, heads, HALF: tl.constexpr, AHEAD: tl.constexpr
    ):
        wait_for_others(AHEAD)
        row, head = tl.program_id(0), tl.program_id(1)
        k = tl.arange(0, HALF)
        angle = tl.load(positions + row * position_stride).to(tl.float32) * tl.load(frequencies + k)
        # cos and sin are rounded to the dtype of x before they are multiplied, as in the equation.
        cos = tl.cos(angle).to(x.dtype.element_ty).to(tl.float32)
        sin = tl.sin(angle).to(x.dtype.element_ty).to(tl.float32)
        place = x + row * x_batch + head * x_head + k
        left, right = tl.load(place).to(tl.float32), tl.load(place + HALF).to(tl.float32)
        target = out + (row * heads + head) * 2 * HALF + k
        tl.store(target, (left * cos - right * sin).to(out.dtype.element_ty))
        tl.store(target + HALF, (right * cos + left * sin).to(out.dtype.element_ty))
