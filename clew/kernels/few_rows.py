"""What a decoding step does with few rows, on a GPU: products that read each weight once at full speed, norms, and softmax and maximum over
a vocabulary, each one kernel; the k largest are in `top_k`.

    linear(x, W, b) = x W^T + b            1 to 8 rows: a program a few rows of W, no tensor cores, sums in float32
    log_softmax(z)  = z - log sum exp z    in float32, whatever the rows' stride

Libraries choose their kernels for large matrices: a product with one row then waits for a pipeline it does not need, and one whose width is
not a multiple of 8, as many vocabularies are not, is written without vector instructions. `FewRows` is a context in which torch's own
functions take these forms, so that layers stay as they are written. Only where no gradient is asked for.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from clew.kernels.top_k import takes_topk, topk

try:
    import triton
    import triton.language as tl
except ImportError:  # a build of torch for the CPU comes without it
    triton = None

MOST_ROWS = 8
ALIGNED = 8
"""Entries of two bytes that are read or written by one instruction."""
WIDE = 4096
"""Outputs from which on a product that is not aligned is worth a second copy of its weights."""
WIDEST_NORM = 8192
FLOATS = (torch.bfloat16, torch.float16, torch.float32)
PLAIN = (Tensor, nn.Parameter)
"""Weights that lie in memory as they are; one in integers has a product of its own."""


class FewRows(TorchFunctionMode):
    """Products, norms, softmaxes and maxima in the forms of this module.

    One object serves a step that is run many times: weights whose width is not aligned are kept in an aligned form, which `refresh` makes
    anew of weights that may have changed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.aligned: dict[int, tuple[weakref.ref[Tensor], Tensor]] = {}

    def refresh(self) -> None:
        for place, aligned in self.aligned.values():
            if (weight := place()) is not None:
                aligned[: len(weight)].copy_(weight)

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is F.linear:
            return self.linear(*args, **kwargs)
        if func in FORMS and not torch.is_grad_enabled() and FORMS[func].takes(*args, **kwargs):
            return FORMS[func].run(*args, **kwargs)
        return func(*args, **kwargs)

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        rows = x.numel() // max(x.shape[-1], 1)
        is_plain = x.is_cuda and x.dtype == weight.dtype and x.dtype in FLOATS and weight.dim() == 2 and weight.stride(1) == 1
        if type(weight) not in PLAIN or not is_plain or not rows or torch.is_grad_enabled() or torch.is_autocast_enabled("cuda"):
            return F.linear(x, weight, bias)
        if rows <= MOST_ROWS:
            return few_rows_linear(x, weight, bias)
        if len(weight) % ALIGNED and len(weight) >= WIDE and x.dtype != torch.float32:
            whole = F.linear(x, self.aligned_weight(weight))[..., : len(weight)]
            return whole if bias is None else whole + bias
        return F.linear(x, weight, bias)

    def aligned_weight(self, weight: Tensor) -> Tensor:
        """The weight with rows of zeros behind it, as many as make its width aligned."""
        if (kept := self.aligned.get(weight.data_ptr())) is None:
            kept = weakref.ref(weight), F.pad(weight, (0, 0, 0, -len(weight) % ALIGNED))
            self.aligned[weight.data_ptr()] = kept
        return kept[1]


def few_rows(device: torch.device) -> FewRows | None:
    """The mode for a step on this device, where there is one."""
    return FewRows() if device.type == "cuda" and triton is not None else None


def few_rows_linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    flat = x.reshape(-1, x.shape[-1])
    rows, depth = flat.shape
    width = len(weight)
    out = torch.empty(*x.shape[:-1], width, dtype=x.dtype, device=x.device)
    block = 4 if width <= 1536 else 8 if width <= 8192 else 16
    step = min(512, triton.next_power_of_2(depth))
    _linear[(triton.cdiv(width, block),)](
        flat, weight, bias if bias is not None else weight, out, flat.stride(0), weight.stride(0), width, depth,
        ROWS=rows, BLOCK=block, STEP=step, HAS_BIAS=bias is not None, num_warps=4,
    )  # fmt: skip
    return out


def rows_of(x: Tensor) -> Tensor:
    """(rows, width), each row's entries side by side."""
    flat = x.reshape(-1, x.shape[-1])
    return flat if flat.stride(1) == 1 else flat.contiguous()


def takes_softmax(x: Tensor, dim: int | None = None, *, dtype: torch.dtype | None = None) -> bool:
    return dim == -1 and (x.dtype if dtype is None else dtype) == torch.float32 and is_plain(x)


def log_softmax(x: Tensor, dim: int = -1, *, dtype: torch.dtype | None = None) -> Tensor:
    """Over the last axis, in float32."""
    flat = rows_of(x)
    out = torch.empty(x.shape, dtype=torch.float32, device=x.device)
    step, warps = steps_for(*flat.shape)
    _log_softmax[(len(flat),)](flat, out, flat.stride(0), flat.shape[1], STEP=step, num_warps=warps)
    return out


def takes_argmax(x: Tensor, dim: int | None = None, keepdim: bool = False) -> bool:
    return dim == -1 and not keepdim and x.dim() == 2 and is_plain(x) and x.dtype == torch.float32


def argmax(x: Tensor, dim: int = -1) -> Tensor:
    """The first place of the largest entry of each row; 0 where all are NaN."""
    flat = rows_of(x)
    out = torch.empty(len(x), dtype=torch.long, device=x.device)
    step, warps = steps_for(*flat.shape)
    _argmax[(len(flat),)](flat, out, flat.stride(0), flat.shape[1], STEP=step, num_warps=warps)
    return out


def steps_for(rows: int, width: int) -> tuple[int, int]:
    """Entries that a program reads at a time, and its warps: one row is read by as many as there can be."""
    step, warps = (16384, 16) if rows < 32 else (4096, 8)
    return min(step, triton.next_power_of_2(width)), warps


def takes_layer_norm(x: Tensor, shape: Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None, *more: Any) -> bool:
    return len(shape) == 1 and shape[0] <= WIDEST_NORM and weight is not None and weight.dtype == x.dtype and is_plain(x)


def layer_norm(x: Tensor, shape: Sequence[int], weight: Tensor, bias: Tensor | None = None, eps: float = 1e-5, *more: Any) -> Tensor:
    return normed(x, weight, bias, eps, centred=True)


def takes_rms_norm(x: Tensor, shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None) -> bool:
    return eps is not None and takes_layer_norm(x, shape, weight)


def rms_norm(x: Tensor, shape: Sequence[int], weight: Tensor, eps: float) -> Tensor:
    return normed(x, weight, None, eps, centred=False)


def normed(x: Tensor, weight: Tensor, bias: Tensor | None, eps: float, centred: bool) -> Tensor:
    flat = rows_of(x)
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    width = triton.next_power_of_2(flat.shape[1])
    _norm[(len(flat),)](
        flat, weight, bias if bias is not None else weight, out, flat.stride(0), flat.shape[1], eps,
        WIDTH=width, CENTRED=centred, HAS_BIAS=bias is not None, num_warps=max(1, min(8, width // 256)),
    )  # fmt: skip
    return out


def is_plain(x: Tensor) -> bool:
    return x.is_cuda and x.dtype in FLOATS and x.numel() > 0


class Form(NamedTuple):
    """Another way to run one of torch's functions: whether it takes these arguments, and what it gives."""

    takes: Callable[..., bool]
    run: Callable[..., Any]


FORMS: dict[Callable[..., Any], Form] = {
    torch.Tensor.log_softmax: Form(takes_softmax, log_softmax),
    torch.Tensor.argmax: Form(takes_argmax, argmax),
    torch.Tensor.topk: Form(takes_topk, topk),
    torch.layer_norm: Form(takes_layer_norm, layer_norm),
    F.rms_norm: Form(takes_rms_norm, rms_norm),
}


if triton is not None:

    @triton.jit
    def _linear(
        x, weight, bias, out, x_row, weight_row, width, depth,
        ROWS: tl.constexpr, BLOCK: tl.constexpr, STEP: tl.constexpr, HAS_BIAS: tl.constexpr,
    ):  # fmt: skip
        n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        k = tl.arange(0, STEP)
        is_output = n < width
        rows_of_weight = weight + n.to(tl.int64)[:, None] * weight_row
        offset = tl.zeros([BLOCK], dtype=tl.float32)
        if HAS_BIAS:
            offset = tl.load(bias + n, mask=is_output, other=0.0).to(tl.float32)
        for row in tl.static_range(ROWS):
            sums = tl.zeros([BLOCK, STEP], dtype=tl.float32)
            for start in range(0, depth, STEP):
                at = start + k
                some = tl.load(rows_of_weight + at[None, :], mask=is_output[:, None] & (at < depth)[None, :], other=0.0)
                given = tl.load(x + row * x_row + at, mask=at < depth, other=0.0)
                sums += some.to(tl.float32) * given.to(tl.float32)[None, :]
            total = tl.sum(sums, 1) + offset
            tl.store(out + row * width + n, total.to(out.dtype.element_ty), mask=is_output)

    @triton.jit
    def _log_softmax(x, out, x_row, width, STEP: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        k = tl.arange(0, STEP)
        most = tl.full([STEP], float("-inf"), dtype=tl.float32)
        total = tl.zeros([STEP], dtype=tl.float32)
        for start in range(0, width, STEP):
            z = tl.load(x + row * x_row + start + k, mask=start + k < width, other=float("-inf")).to(tl.float32)
            higher = tl.maximum(most, z)
            # Where nothing finite was seen yet both are -inf, and their difference would be NaN.
            shift = tl.where(higher == float("-inf"), 0.0, higher)
            total = total * tl.exp(most - shift) + tl.exp(z - shift)
            most = higher
        top = tl.max(most, 0)
        scale = tl.where(top == float("-inf"), 0.0, top)
        log_total = scale + tl.log(tl.sum(total * tl.exp(most - scale), 0))
        for start in range(0, width, STEP):
            z = tl.load(x + row * x_row + start + k, mask=start + k < width, other=0.0).to(tl.float32)
            tl.store(out + row * width + start + k, z - log_total, mask=start + k < width)

    @triton.jit
    def _argmax(x, out, x_row, width, STEP: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        k = tl.arange(0, STEP)
        most = tl.full([STEP], float("-inf"), dtype=tl.float32)
        place = tl.zeros([STEP], dtype=tl.int32)
        for start in range(0, width, STEP):
            z = tl.load(x + row * x_row + start + k, mask=start + k < width, other=float("-inf"))
            place = tl.where(z > most, start + k, place)
            most = tl.where(z > most, z, most)
        top = tl.max(most, 0)
        first = tl.min(tl.where((most == top) & (top > float("-inf")), place, width), 0)
        tl.store(out + row, tl.where(first < width, first, 0).to(tl.int64))

    @triton.jit
    def _norm(
        x, weight, bias, out, x_row, width, eps,
        WIDTH: tl.constexpr, CENTRED: tl.constexpr, HAS_BIAS: tl.constexpr,
    ):  # fmt: skip
        row = tl.program_id(0).to(tl.int64)
        k = tl.arange(0, WIDTH)
        real = k < width
        z = tl.load(x + row * x_row + k, mask=real, other=0.0).to(tl.float32)
        if CENTRED:
            z = tl.where(real, z - tl.sum(z, 0) / width, 0.0)
        z = z / tl.sqrt(tl.sum(z * z, 0) / width + eps) * tl.load(weight + k, mask=real, other=0.0).to(tl.float32)
        if HAS_BIAS:
            z += tl.load(bias + k, mask=real, other=0.0).to(tl.float32)
        tl.store(out + row * width + k, z.to(out.dtype.element_ty), mask=real)
