"""A context in which torch's own functions take the forms that decoding needs on a CPU, so that layers stay as they are written.

    x W^T + b     torch takes MKL's product for float32, which on CPUs that are not Intel's reads a matrix with one thread and at a fifth of
                  what memory gives; oneDNN's product of the same float32 numbers takes half the time or less, for one row as for 256.
                  Small matrices are an exception: oneDNN needs about 20 us whatever their size
    rms_norm      a few calls on a vector, of which torch makes three times as many

Values differ from torch's by rounding alone. Only where no gradient is asked for.
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
"""Numbers that a norm goes over several times without leaving a core's cache."""
SMALL = 2**18
"""Entries of a matrix that stays in a core's cache."""
DESCRIBED = Path("/proc/cpuinfo")
PLAIN = (Tensor, torch.nn.Parameter)


class FewRowsOnCPU(TorchFunctionMode):
    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        form = FORMS.get(func)
        if form is not None and not kwargs and (found := form(*args)) is not None:
            return found
        return func(*args, **(kwargs or {}))


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor | None:
    if torch.is_grad_enabled() or x.dtype != torch.float32 or type(x) not in PLAIN or torch.is_autocast_enabled("cpu"):
        return None
    if isinstance(weight, QuantisedWeight):  # its calls one by one, so that a tape has them and not what stands around them
        return plain_product(x, weight.integers, bias) if weight.integers.multipliers is None else None
    if type(weight) not in PLAIN or weight.dtype != torch.float32 or weight.dim() != 2 or not weight.is_contiguous():
        return None
    if not has_slow_products() or not x.numel() or not weight.numel():
        return None
    if x.numel() == x.shape[-1] and weight.numel() <= SMALL:
        flat = x.reshape(-1)
        found: Tensor = torch.mv(weight, flat) if bias is None else torch.addmv(bias, weight, flat)
        return found.view(*x.shape[:-1], len(weight))
    product: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return product


def rms_norm(x: Tensor, shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None) -> Tensor | None:
    if weight is None or eps is None or len(shape) != 1 or torch.is_grad_enabled():
        return None
    if type(x) not in PLAIN or x.dtype != torch.float32 or weight.dtype != x.dtype or x.numel() > MOST_NORMED:
        return None
    return x * x.square().mean(-1, keepdim=True).add(eps).rsqrt() * weight


FORMS: dict[Callable[..., Any], Callable[..., Tensor | None]] = {F.linear: linear, F.rms_norm: rms_norm}
"""What stands for a function of torch's; it gives None where torch's own is to be called."""


@cache
def has_slow_products() -> bool:
    """Whether torch's product of few rows is slow here: it is MKL's, on a CPU that is not Intel's."""
    if not torch.backends.mkl.is_available() or not torch.backends.mkldnn.is_available():
        return False
    return platform.machine().lower() in ("x86_64", "amd64") and vendor() not in ("", "GenuineIntel")


def vendor() -> str:
    """The name that an x86 CPU gives itself; empty where the system does not say it."""
    lines = DESCRIBED.read_text(encoding="utf-8").splitlines() if DESCRIBED.exists() else [f"vendor_id : {platform.processor()}"]
    named = next((line.partition(":")[2].strip() for line in lines if line.startswith("vendor_id")), "")
    return next((each for each in ("GenuineIntel", "AuthenticAMD") if each in named), "")
