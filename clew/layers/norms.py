"""Normalisation of each position's vector. Members of NORMS are built as `N(dim)`."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class LayerNorm(nn.Module):
    """y = g * (x - mean) / sqrt(variance + eps) + b  (Ba et al. 2016)."""

    def __init__(self, dim: int, *, eps: float = 1e-5, bias: bool = True):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight
        return torch.layer_norm(x, weight.shape, weight, self.bias, self.eps)


class RMSNorm(nn.Module):
    """y = g * x / sqrt(mean(x^2) + eps)  (Zhang and Sennrich 2019)."""

    def __init__(self, dim: int, *, eps: float = 1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)


class NoNorm(nn.Identity):
    """y = x."""

    def __init__(self, dim: int):
        super().__init__()


NORMS: dict[str, Callable[..., nn.Module]] = {"layer": LayerNorm, "rms": RMSNorm, "none": NoNorm}
