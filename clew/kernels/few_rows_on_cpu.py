"""A function mode that replaces torch's functions by faster calls for decoding on a CPU, so layers need no changes.

    x W^T + b     torch uses MKL for float32, which on CPUs other than Intel's reads a matrix with one thread, at a
                  fifth of the memory bandwidth. oneDNN's product of the same float32 numbers takes half the time or
                  less, for one row as for 256. Small matrices are an exception: oneDNN needs about 20 us for any
                  size
    rms_norm      a few calls on a vector; torch makes three times as many

Results differ from torch's only by rounding. The mode is active only without gradients.
"""

import platform
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from clew.kernels.quantised_products import plain_product
from clew.kernels.quantised_weight import QuantisedWeight

MOST_NORMED = 2**16
"""The maximum number of values that a norm can read several times from a core's cache."""
SMALL = 2**18
"""The maximum number of entries of a matrix that stays in a core's cache."""
DESCRIBED = Path("/proc/cpuinfo")
PLAIN = (Tensor, torch.nn.Parameter)


class FewRowsOnCPU(TorchFunctionMode):
    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        form = FORMS.get(func)
        if form is not None and not kwargs and (result := form(*args)) is not None:
            return result
        return func(*args, **(kwargs or {}))


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor | None:
    if torch.is_grad_enabled() or x.dtype != torch.float32 or type(x) not in PLAIN or torch.is_autocast_enabled("cpu"):
        return None
    if isinstance(weight, QuantisedWeight):  # call its product directly, so that a tape records only that
        return plain_product(x, weight.integers, bias) if weight.integers.multipliers is None else None
    if type(weight) not in PLAIN or weight.dtype != torch.float32 or weight.dim() != 2 or not weight.is_contiguous():
        return None
    if not has_slow_products() or not x.numel() or not weight.numel():
        return None
    if x.numel() == x.shape[-1] and weight.numel() <= SMALL:
        flat = x.reshape(-1)
        y: Tensor = torch.mv(weight, flat) if bias is None else torch.addmv(bias, weight, flat)
        return y.view(*x.shape[:-1], len(weight))
    product: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return product


def rms_norm(x: Tensor, shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None) -> Tensor | None:
    if weight is None or eps is None or len(shape) != 1 or torch.is_grad_enabled():
        return None
    if type(x) not in PLAIN or x.dtype != torch.float32 or weight.dtype != x.dtype or x.numel() > MOST_NORMED:
        return None
    return x * x.square().mean(-1, keepdim=True).add(eps).rsqrt() * weight


FORMS: dict[Callable[..., Any], Callable[..., Tensor | None]] = {F.linear: linear, F.rms_norm: rms_norm}
"""The replacements of torch functions. A replacement returns None if torch's own function must be called."""


@cache
def has_slow_products() -> bool:
    """Whether torch's product of few rows is slow here: MKL on a CPU other than Intel's.

    This depends on the CPU's vendor, not on timing, so that a machine computes the same values every time.
    """
    if not torch.backends.mkl.is_available() or not torch.backends.mkldnn.is_available():
        return False
    return platform.machine().lower() in ("x86_64", "amd64") and vendor() not in ("", "GenuineIntel")


def vendor() -> str:
    """Return the vendor string of an x86 CPU, or an empty string if unknown."""
    lines = (
        DESCRIBED.read_text(encoding="utf-8").splitlines()
        if DESCRIBED.exists()
        else [f"vendor_id : {platform.processor()}"]
    )
    vendor_id = next((line.partition(":")[2].strip() for line in lines if line.startswith("vendor_id")), "")
    return next((each for each in ("GenuineIntel", "AuthenticAMD") if each in vendor_id), "")
