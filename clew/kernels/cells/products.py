"""Matrix products on a CPU: of one weight with many small inputs in sequence, and of two long matrices.

Of few rows, both libraries are fastest with a weight that was rearranged once, which takes as long as a few products:
MKL (Intel's CPUs) with a contiguous W^T, up to twice as fast as with W; oneDNN (other CPUs, where MKL is slow) with its
own layout, from a certain number of rows on two to three times as fast as the product that torch calls.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from clew.kernels.few_rows_on_cpu import has_slow_products

LEAST_ROWS, LEAST_TIMES, LEAST_WEIGHTS = 16, 16, 2**14


def multiplied(weight: Tensor, rows: int, times: int, is_added: bool) -> Callable[[Tensor, Tensor], Any]:
    """Return a function that writes x W^T to a result, or adds it, for `times` inputs (rows, width)."""
    if (multiply := products_of(weight, rows, times)) is not None:
        if is_added:
            return lambda x, result: result.add_(multiply(x))
        return lambda x, result: result.copy_(multiply(x))
    across = weight.mT
    if weight.device.type == "cpu" and times >= LEAST_TIMES:
        across = across.contiguous()
    if is_added:
        return lambda x, result: result.addmm_(x, across)
    return lambda x, result: torch.mm(x, across, out=result)


def products_of(weight: Tensor, rows: int, times: int) -> Callable[[Tensor], Tensor] | None:
    """Return x -> x W^T for `times` inputs (rows, width) in float32, by oneDNN; None if its layout is not worthwhile or
    not available."""
    if rows < LEAST_ROWS or times < LEAST_TIMES or weight.numel() < LEAST_WEIGHTS or not is_supported(weight):
        return None
    form = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), rows)
    return lambda x: _product(x, form)


def matmul_transposed(left: Tensor, right: Tensor) -> Tensor:
    """Return left @ right^T, of matrices that may be long and transposed in memory."""
    is_long = left.shape[1] >= LEAST_ROWS and left.numel() >= LEAST_WEIGHTS and right.numel() >= LEAST_WEIGHTS
    if not is_long or not is_supported(right):
        return left @ right.mT
    # The operator copies a transposed left matrix, but not a right one, so the smaller one is on the left.
    return _product(left, right) if left.numel() <= right.numel() else _product(right, left).mT


def is_supported(weight: Tensor) -> bool:
    is_plain = weight.device.type == "cpu" and weight.dtype == torch.float32
    return is_plain and has_slow_products() and bool(torch.backends.mkldnn.enabled) and has_form()


@cache
def has_form() -> bool:
    """Whether this build of torch has the operators, which are private, and their results are as expected."""
    x, weight = torch.linspace(-1, 1, 48).view(16, 3), torch.linspace(-2, 2, 15).view(5, 3)
    try:
        y = _product(x, torch.ops.mkldnn._reorder_linear_weight(weight, 16))
    except (AttributeError, NotImplementedError, RuntimeError, TypeError):
        return False
    return torch.allclose(y, x @ weight.mT, atol=1e-5)


def _product(x: Tensor, form: Tensor) -> Tensor:
    product: Tensor = torch.ops.mkldnn._linear_pointwise(x, form, None, "none", [], "")
    return product
