"""Optimisers by name. Members of OPTIMISERS are built as `O(parameters, learning_rate, *, options)`."""

from collections.abc import Callable, Iterable

import torch
from torch import nn


def sgd(
    parameters: Iterable[nn.Parameter], learning_rate: float, *, momentum: float = 0.0, weight_decay: float = 0.0
) -> torch.optim.Optimizer:
    """w -= lr * g, with momentum where asked."""
    return torch.optim.SGD(parameters, lr=learning_rate, momentum=momentum, weight_decay=weight_decay)


def adam(
    parameters: Iterable[nn.Parameter], learning_rate: float, *, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8
) -> torch.optim.Optimizer:
    """Kingma and Ba 2015."""
    return torch.optim.Adam(parameters, lr=learning_rate, betas=(beta1, beta2), eps=eps)


def adamw(
    parameters: Iterable[nn.Parameter],
    learning_rate: float,
    *,
    beta1: float = 0.9,
    beta2: float = 0.99,
    eps: float = 1e-8,
    weight_decay: float = 0.1,
) -> torch.optim.Optimizer:
    """Loshchilov and Hutter 2019; matrices decay, vectors (norms, biases) do not."""
    parameters = list(parameters)
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    fused = all(p.device.type in ("cpu", "cuda") for p in parameters)
    return torch.optim.AdamW(groups, lr=learning_rate, betas=(beta1, beta2), eps=eps, fused=fused)


OPTIMISERS: dict[str, Callable[..., torch.optim.Optimizer]] = {"sgd": sgd, "adam": adam, "adamw": adamw}
