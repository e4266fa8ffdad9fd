"""x W^T + b with W in 8 or 4 bits. Only `quantised_product` decides how it is computed:

    anywhere            x (s Q)^T + b, where W is converted to float for the call
    x86 with VNNI       r s (round(x / r) Q^T) + b,  r_i = max_k |x_ik| / 127:
                        x is rounded to 8 bits too, row by row
    the same, few texts s (bfloat16(x) Q^T) + b in int8: half the time for one row
    a GPU, few rows     one kernel that reads Q and scales the sums (`few_rows_quantised`)

Integer products make 8 bits fast: with AVX-512 they take a half to a fifth of the time of float32, while converting W
to float first takes three times as long as float32. Without VNNI, oneDNN adds pairs in 16 bits, which overflow; on
other CPUs torch's product may be a plain loop. An int8 product needs about 40 us of additional small operations, so a
small model decodes one row more slowly than in float32; int4 unpacks its codes in every product.
"""

import platform
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from clew.kernels.few_rows_quantised import few_rows_product, is_for_few_rows
from clew.kernels.quantising import Integers

LEAST_SCALE = 1e-30
"""The minimum row scale, so that a row of zeros is not divided by zero."""
MOST_TEXTS, MOST_PLACES = 8, 17
"""A step of more texts, or a chunk of more places, is faster as an integer product. There are two limits so that a
chunk that verifies guesses is rounded like the single steps that it replaces."""


def multiplies_integers(device: torch.device) -> bool:
    """Whether int8 products are fast and correct on this device."""
    return device.type == "cpu" and has_integer_products()


@cache
def has_integer_products() -> bool:
    """Whether oneDNN's int8 product is correct for the largest sums. This is tested, since there is no list of CPUs."""
    if platform.machine().lower() not in ("x86_64", "amd64") or not torch.backends.mkldnn.is_available():
        return False
    x = torch.full((2, 64), 127, dtype=torch.int8)
    weight = torch.cat([x, -x])
    return torch.equal(torch._int_mm(x, weight.mT).double(), x.double() @ weight.double().mT)


VECTOR = 16
"""torch's product of bfloat16 with int8 reads this many columns together, and past the end of a row if its length is
not a multiple."""


@cache
def reads_integers() -> bool:
    """Whether torch's product of bfloat16 with int8 is vectorised on this CPU."""
    return torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")


def is_for_few_texts(x: Tensor, weight: Integers) -> bool:
    if weight.multipliers is not None or x.dtype not in (torch.float32, torch.bfloat16) or x.shape[-1] % VECTOR:
        return False
    places = x[0].numel() // x.shape[-1] if x.dim() > 2 else 1
    return x.numel() // x.shape[-1] <= MOST_TEXTS * places and places <= MOST_PLACES and reads_integers()


@cache
def ones(length: int) -> Tensor:
    return torch.ones(length, dtype=torch.bfloat16)


def few_texts_product(x: Tensor, weight: Integers, bias: Tensor | None) -> Tensor:
    """Multiply in bfloat16: sums are float32 and rounded to bfloat16 once. Scales are applied in float32, so they are
    not rounded."""
    sums = torch._weight_int8pack_mm(x.reshape(-1, x.shape[-1]).bfloat16(), weight.codes, ones(len(weight.codes)))
    y = sums * weight.scales.float() if bias is None else torch.addcmul(bias.float(), sums, weight.scales.float())
    return y.to(x.dtype).view(*x.shape[:-1], len(weight.scales))


def quantised_product(x: Tensor, weight: Integers, bias: Tensor | None = None) -> Tensor:
    if torch.is_grad_enabled() and (x.requires_grad or (bias is not None and bias.requires_grad)):
        y: Tensor = Product.apply(x, weight, bias)  # type: ignore[no-untyped-call]
        return y
    return plain_product(x, weight, bias)


def plain_product(x: Tensor, weight: Integers, bias: Tensor | None) -> Tensor:
    if x.numel() and x.dtype != torch.float64:
        if multiplies_integers(x.device):
            return (
                few_texts_product(x, weight, bias) if is_for_few_texts(x, weight) else integer_product(x, weight, bias)
            )
        if is_for_few_rows(x, weight):
            return few_rows_product(x, weight, bias)
    return F.linear(x, weight.floats(x.dtype), None if bias is None else bias.to(x.dtype))


def integer_product(x: Tensor, weight: Integers, bias: Tensor | None) -> Tensor:
    flat = x.reshape(-1, x.shape[-1]).float()
    row_scales = flat.abs().amax(1, keepdim=True).div_(127).clamp_(min=LEAST_SCALE)
    codes = (flat / row_scales).round_().to(torch.int8)
    sums = torch._int_mm(codes, weight.int8().mT) * row_scales
    y = sums.mul_(weight.scales) if bias is None else torch.addcmul(bias.float(), sums, weight.scales.float())
    return y.to(x.dtype).reshape(*x.shape[:-1], len(weight.scales))


class Product(torch.autograd.Function):
    """The product with gradients for x and b, as if x were not rounded; instruments use them. W has no gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Integers, bias: Tensor | None) -> Tensor:
        ctx.weight = weight
        return plain_product(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        needs_x, _, needs_bias = ctx.needs_input_grad
        d_x = gradient @ ctx.weight.floats(gradient.dtype) if needs_x else None
        return d_x, None, gradient.flatten(0, -2).sum(0) if needs_bias else None
