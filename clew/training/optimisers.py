"""Optimisers by name. Members of OPTIMISERS are built as `O(parameters, learning_rate, *, options)`.

With weight decay, `decay_vectors` also applies it to parameters with fewer than two axes, such as norms and biases.
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
    """Stochastic gradient descent, with optional momentum.

        w -= lr * (g + weight_decay * w)

    By default weight decay applies to all parameters, as in the papers on recurrent language models.
    """
    parameters = list(parameters)
    groups = decay_groups(parameters, weight_decay, decay_vectors)
    # torch has no fused SGD step for shards.
    fused = None if any(is_sharded(p) for p in parameters) else fused_if_supported(parameters)
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
    """Adam (Kingma and Ba 2015). Weight decay is added to the gradient, and so scaled like the gradient."""
    parameters = list(parameters)
    groups = decay_groups(parameters, weight_decay, decay_vectors)
    return torch.optim.Adam(
        groups, lr=learning_rate, betas=(beta1, beta2), eps=eps, fused=fused_if_supported(parameters)
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
    """AdamW (Loshchilov and Hutter 2019): Adam with decoupled weight decay. By default the decay applies to matrices,
    not to vectors (Radford et al. 2019)."""
    parameters = list(parameters)
    groups = decay_groups(parameters, weight_decay, decay_vectors)
    return torch.optim.AdamW(
        groups, lr=learning_rate, betas=(beta1, beta2), eps=eps, fused=fused_if_supported(parameters)
    )


def adagrad(
    parameters: Iterable[nn.Parameter], learning_rate: float, *, weight_decay: float = 0.0, eps: float = 1e-10
) -> torch.optim.Optimizer:
    """Adagrad (Duchi et al. 2011): the step of each entry is divided by the root of the sum of its squared gradients so
    far."""
    return torch.optim.Adagrad(parameters, lr=learning_rate, weight_decay=weight_decay, eps=eps)


def decay_groups(parameters: list[nn.Parameter], weight_decay: float, decay_vectors: bool) -> list[dict[str, Any]]:
    """Split parameters into groups with and without weight decay. Matrices, including embedding tables, always decay;
    vectors (norms, biases) only with `decay_vectors`."""
    if decay_vectors:
        return [{"params": parameters, "weight_decay": weight_decay}]
    matrices, vectors = [p for p in parameters if p.dim() >= 2], [p for p in parameters if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]


def fused_if_supported(parameters: list[nn.Parameter]) -> bool | None:
    """Return True if the devices have a fused optimiser step, else None: then torch chooses."""
    return True if all(p.device.type in ("cpu", "cuda") for p in parameters) else None


def is_sharded(parameter: nn.Parameter) -> bool:
    return type(parameter.data) is not torch.Tensor


OPTIMISERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": sgd,
    "adam": adam,
    "adamw": adamw,
    "adagrad": adagrad,
}
