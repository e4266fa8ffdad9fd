"""Optimisers by name. Members of OPTIMISERS are built as `O(parameters, learning_rate, *, options)`.

Where weights decay, `decay_vectors` says whether norms, biases and all else that has fewer than two axes decay with the
matrices.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn


def sgd(
    parameters: Iterable[nn.Parameter],
    learning_rate: float,
    *,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    decay_vectors: bool = True,
) -> torch.optim.Optimizer:
    """w -= lr * (g + weight_decay * w), with momentum where asked; everything decays, as in the papers of recurrent
    language models."""
    parameters = list(parameters)
    groups = decay_groups(parameters, weight_decay, decay_vectors)
    # torch has no fused step of SGD over shards.
    fused = None if any(is_sharded(p) for p in parameters) else fused_where_there_is(parameters)
    return torch.optim.SGD(groups, lr=learning_rate, momentum=momentum, fused=fused)


def adam(
    parameters: Iterable[nn.Parameter],
    learning_rate: float,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    decay_vectors: bool = True,
) -> torch.optim.Optimizer:
    """Kingma and Ba 2015; decay is a penalty in the gradient, and so is scaled as the gradient is."""
    parameters = list(parameters)
    groups = decay_groups(parameters, weight_decay, decay_vectors)
    return torch.optim.Adam(
        groups, lr=learning_rate, betas=(beta1, beta2), eps=eps, fused=fused_where_there_is(parameters)
    )


def adamw(
    parameters: Iterable[nn.Parameter],
    learning_rate: float,
    *,
    beta1: float = 0.9,
    beta2: float = 0.99,
    eps: float = 1e-8,
    weight_decay: float = 0.1,
    decay_vectors: bool = False,
) -> torch.optim.Optimizer:
    """Loshchilov and Hutter 2019: decay beside the gradient's step; matrices decay, vectors do not (Radford et al.
    2019)."""
    parameters = list(parameters)
    groups = decay_groups(parameters, weight_decay, decay_vectors)
    return torch.optim.AdamW(
        groups, lr=learning_rate, betas=(beta1, beta2), eps=eps, fused=fused_where_there_is(parameters)
    )


def adagrad(
    parameters: Iterable[nn.Parameter], learning_rate: float, *, weight_decay: float = 0.0, eps: float = 1e-10
) -> torch.optim.Optimizer:
    """Duchi et al. 2011: each entry's step is divided by the root of all its squared gradients so far."""
    return torch.optim.Adagrad(parameters, lr=learning_rate, weight_decay=weight_decay, eps=eps)


def decay_groups(parameters: list[nn.Parameter], weight_decay: float, decay_vectors: bool) -> list[dict[str, Any]]:
    """What decays and what does not. Matrices do, embedding tables among them; vectors (norms, biases) only where
    asked."""
    if decay_vectors:
        return [{"params": parameters, "weight_decay": weight_decay}]
    matrices, vectors = [p for p in parameters if p.dim() >= 2], [p for p in parameters if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]


def fused_where_there_is(parameters: list[nn.Parameter]) -> bool | None:
    """True where one kernel steps all parameters, None, torch's own choice, on other devices."""
    return True if all(p.device.type in ("cpu", "cuda") for p in parameters) else None


def is_sharded(parameter: nn.Parameter) -> bool:
    return type(parameter.data) is not torch.Tensor


OPTIMISERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": sgd,
    "adam": adam,
    "adamw": adamw,
    "adagrad": adagrad,
}
