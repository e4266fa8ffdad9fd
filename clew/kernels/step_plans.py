"""Deferred computations of a captured decoding step, and their kernels, on a GPU.

    y = g(W norm(x) + b) * f + r            1 to 8 rows: a few rows of W per program, no tensor cores, sums in float32
    s = x + y,    n = norm(s)               one kernel, for any number of rows

Each class is a plan (`deferred.Plan`). `few_rows` decides which plan a torch function becomes.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from clew.kernels import vocabulary
from clew.kernels.ahead import launching
from clew.kernels.vocabulary import Parts, flatten_rows, parts_of

try:
    import triton
    import triton.language as tl

    from clew.kernels.ahead import wait_for_others
except ImportError:  # CPU builds of torch come without it
    triton = None

MOST_DEPTH = 4096
"""The number of entries of x that a product reads at once, which is also the width of the widest norm that it can
include."""
ACTIVATIONS = {"": 0, "relu": 1, "gelu": 2, "gelu_tanh": 3, "silu": 4}


class Normed(NamedTuple):
    """norm(x)."""

    x: Tensor
    weight: Tensor
    bias: Tensor | None
    eps: float
    centred: bool

    @property
    def reads(self) -> list[Tensor]:
        return [self.x]

    def run(self) -> Tensor:
        return normed(self)[0]


class Product(NamedTuple):
    """activation(W x + b) * factor + added, where x may be a norm that has not been computed yet."""

    x: Tensor | Normed
    weight: Tensor
    bias: Tensor | None
    activation: str = ""
    factor: Tensor | None = None
    added: Tensor | None = None

    @property
    def reads(self) -> list[Tensor]:
        x = self.x.x if isinstance(self.x, Normed) else self.x
        return [part for part in (x, self.factor, self.added) if part is not None]

    def run(self) -> Tensor:
        return few_rows_linear(*self)


class ManyRows(NamedTuple):
    """W x + b, computed by a library."""

    x: Tensor
    weight: Tensor
    bias: Tensor | None
    width: int  # of the result; the weight may be padded with zero rows

    @property
    def reads(self) -> list[Tensor]:
        return [self.x]

    def run(self) -> Tensor:
        if len(self.weight) == self.width:
            return F.linear(self.x, self.weight, self.bias)
        whole = F.linear(self.x, self.weight)[..., : self.width]
        return whole if self.bias is None else whole + self.bias


class Sum(NamedTuple):
    left: Tensor
    right: Tensor

    @property
    def reads(self) -> list[Tensor]:
        return [self.left, self.right]

    def run(self) -> Tensor:
        return self.left + self.right


class LogSoftmax:
    """log softmax(logits), often needed only for some entries."""

    def __init__(self, logits: Tensor):
        self.logits = logits
        self.best: tuple[Tensor, Tensor] | None = None
        self._parts: Parts | None = None

    @property
    def reads(self) -> list[Tensor]:
        return [self.logits] if self.best is None else [self.logits, self.best[0]]

    @property
    def parts(self) -> Parts:
        if self._parts is None:
            self._parts = parts_of(flatten_rows(self.logits))
        return self._parts

    def run(self) -> Tensor:
        return vocabulary.log_softmax(self.logits, self.parts)


def few_rows_linear(
    x: Tensor | Normed,
    weight: Tensor,
    bias: Tensor | None,
    activation: str = "",
    factor: Tensor | None = None,
    added: Tensor | None = None,
) -> Tensor:
    norm, x = (x, x.x) if isinstance(x, Normed) else (None, x)
    flat = flatten_rows(x)
    rows, depth = flat.shape
    width = len(weight)
    out = torch.empty(*x.shape[:-1], width, dtype=x.dtype, device=x.device)
    step = triton.next_power_of_2(depth)
    block = 16 if width > 8192 else 4
    extras = [None if part is None else flatten_rows(part) for part in (factor, added)]
    scales = (None, None) if norm is None else (norm.weight, norm.bias)
    _linear[(triton.cdiv(width, block),)](
        flat, weight, *(weight if part is None else part for part in (bias, *scales, *extras)), out,
        flat.stride(0), weight.stride(0), *(0 if part is None else part.stride(0) for part in extras), width, depth,
        0.0 if norm is None else norm.eps,
        ROWS=rows, BLOCK=block, STEP=min(step, MOST_DEPTH), IS_WHOLE=step <= MOST_DEPTH, HAS_BIAS=bias is not None,
        NORM=0 if norm is None else 2 if norm.centred else 1, NORM_HAS_BIAS=scales[1] is not None,
        ACTIVATION=ACTIVATIONS[activation], HAS_FACTOR=factor is not None, HAS_ADDED=added is not None,
        num_warps=4 if step <= 1024 else 8, **launching(),
    )  # fmt: skip
    return out


def normed(norm: Normed, added: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return norm(x + added) and the sum."""
    x, weight, bias, eps, centred = norm
    flat = flatten_rows(x)
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    other = flat if added is None else flatten_rows(added)
    total = x if added is None else torch.empty_like(out)
    width = triton.next_power_of_2(flat.shape[1])
    _norm[(len(flat),)](
        flat, other, weight, bias if bias is not None else weight, out, total if added is not None else out,
        flat.stride(0), other.stride(0), flat.shape[1], eps,
        WIDTH=width, CENTRED=centred, HAS_BIAS=bias is not None, ADDS=added is not None,
        num_warps=max(1, min(8, width // 256)), **launching(),
    )  # fmt: skip
    return out, total


if triton is not None:

    @triton.jit
    def _activated(z, ACTIVATION: tl.constexpr):
        if ACTIVATION == 1:
            z = tl.where(z == z, tl.maximum(z, 0.0), z)
        if ACTIVATION == 2:
            z = 0.5 * z * (1.0 + tl.erf(z * 0.7071067811865476))
        if ACTIVATION == 3:
            inner = 0.7978845608028654 * (z + 0.044715 * z * z * z)
            z = z * tl.sigmoid(2.0 * inner)  # 0.5 (1 + tanh(u)) = sigmoid(2 u)
        if ACTIVATION == 4:
            z = z * tl.sigmoid(z)
        return z

    @triton.jit
    def _standardised(z, real, width, weight, bias, k, eps, CENTRED: tl.constexpr, HAS_BIAS: tl.constexpr):
        """Return norm(z), whose first `width` entries are real and the others 0."""
        if CENTRED:
            z = tl.where(real, z - tl.sum(z, 0) / width, 0.0)
        z = z / tl.sqrt(tl.sum(z * z, 0) / width + eps) * tl.load(weight + k, mask=real, other=0.0).to(tl.float32)
        if HAS_BIAS:
            z += tl.load(bias + k, mask=real, other=0.0).to(tl.float32)
        return z

    @triton.jit
    def _linear(
        x, weight, bias, norm_weight, norm_bias, factor, added, out,
        x_row, weight_row, factor_row, added_row, width, depth, eps,
        ROWS: tl.constexpr, BLOCK: tl.constexpr, STEP: tl.constexpr, IS_WHOLE: tl.constexpr,
        HAS_BIAS: tl.constexpr, NORM: tl.constexpr, NORM_HAS_BIAS: tl.constexpr, ACTIVATION: tl.constexpr,
        HAS_FACTOR: tl.constexpr, HAS_ADDED: tl.constexpr, AHEAD: tl.constexpr,
    ):  # fmt: skip
        # Round intermediate results as separate kernels would.
        number = out.dtype.element_ty
        n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        k = tl.arange(0, STEP)
        is_output = n < width
        rows_of_weight = weight + n.to(tl.int64)[:, None] * weight_row
        offset = tl.zeros([BLOCK], dtype=tl.float32)
        if HAS_BIAS:
            offset = tl.load(bias + n, mask=is_output, other=0.0).to(tl.float32)
        if IS_WHOLE:  # read the weights, which no kernel writes, before x is ready
            some = tl.load(rows_of_weight + k[None, :], mask=is_output[:, None] & (k < depth)[None, :], other=0.0)
        wait_for_others(AHEAD)
        for row in tl.static_range(ROWS):
            if IS_WHOLE:
                x_row_values = tl.load(x + row * x_row + k, mask=k < depth, other=0.0).to(tl.float32)
                if NORM > 0:
                    x_row_values = _standardised(
                        x_row_values, k < depth, depth, norm_weight, norm_bias, k, eps, NORM == 2, NORM_HAS_BIAS
                    )
                    x_row_values = x_row_values.to(number).to(tl.float32)
                total = tl.sum(some.to(tl.float32) * x_row_values[None, :], 1)
            else:
                sums = tl.zeros([BLOCK, STEP], dtype=tl.float32)
                for start in range(0, depth, STEP):
                    at = start + k
                    some = tl.load(
                        rows_of_weight + at[None, :], mask=is_output[:, None] & (at < depth)[None, :], other=0.0
                    )
                    x_row_values = tl.load(x + row * x_row + at, mask=at < depth, other=0.0)
                    sums += some.to(tl.float32) * x_row_values.to(tl.float32)[None, :]
                total = tl.sum(sums, 1)
            y = (total + offset).to(number)
            if ACTIVATION > 0:
                y = _activated(y.to(tl.float32), ACTIVATION).to(number)
            if HAS_FACTOR:
                y = (
                    y.to(tl.float32) * tl.load(factor + row * factor_row + n, mask=is_output, other=0.0).to(tl.float32)
                ).to(number)
            if HAS_ADDED:
                y = (
                    y.to(tl.float32) + tl.load(added + row * added_row + n, mask=is_output, other=0.0).to(tl.float32)
                ).to(number)
            tl.store(out + row * width + n, y, mask=is_output)

    @triton.jit
    def _norm(
        x, added, weight, bias, out, total, x_row, added_row, width, eps,
        WIDTH: tl.constexpr, CENTRED: tl.constexpr, HAS_BIAS: tl.constexpr, ADDS: tl.constexpr, AHEAD: tl.constexpr,
    ):  # fmt: skip
        wait_for_others(AHEAD)
        row = tl.program_id(0).to(tl.int64)
        k = tl.arange(0, WIDTH)
        real = k < width
        z = tl.load(x + row * x_row + k, mask=real, other=0.0).to(tl.float32)
        if ADDS:
            z += tl.load(added + row * added_row + k, mask=real, other=0.0).to(tl.float32)
            z = z.to(total.dtype.element_ty)
            tl.store(total + row * width + k, z, mask=real)
            z = z.to(tl.float32)
        z = _standardised(z, real, width, weight, bias, k, eps, CENTRED, HAS_BIAS)
        tl.store(out + row * width + k, z.to(out.dtype.element_ty), mask=real)
