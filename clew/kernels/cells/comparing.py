"""What a walk of a cell gives, for the comparison with a loop over its steps, and what is said of it once a process."""

import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager

import torch
from torch import Tensor

from clew.core.state import leaves
from clew.core.types import State

log = logging.getLogger("clew.kernels")
_said: set[str] = set()


def results_of(walked: tuple[Tensor, State], real: Tensor | None, wanted: Sequence[Tensor]) -> list[Tensor]:
    """y at real positions, the state, and the gradients of a sum of them with respect to `wanted`."""
    y, state = walked
    outputs = [y if real is None else torch.where(real[..., None], y, 0.0), *leaves(state)]
    weights = [torch.linspace(-1, 1, each.numel(), dtype=each.dtype, device=each.device).view_as(each) for each in outputs]
    # Their graphs may go on into that of a whole chunk, which is still needed.
    gradients = torch.autograd.grad(outputs, wanted, weights, retain_graph=True, allow_unused=True)
    return [
        *(each.detach() for each in outputs),
        *(torch.zeros_like(x) if g is None else g for x, g in zip(wanted, gradients, strict=True)),
    ]


def aside() -> AbstractContextManager[None]:
    """Within this context whoever looks at the tensors that are saved for the backward pass, as checkpoints do, sees none: what is tried
    once is not done again when a part of the forward pass is."""
    return torch.autograd.graph.saved_tensors_hooks(_same, _same)


def _same(tensor: Tensor) -> Tensor:
    return tensor


def share(found: Tensor, wanted: Tensor) -> float:
    """|found - wanted| / |wanted|."""
    found, wanted = found.double(), wanted.double()
    return float((found - wanted).norm() / wanted.norm().clamp(min=1e-6))


def say(level: int, sentence: str) -> None:
    """Once a process; `--debug` shows what is below a warning."""
    if sentence not in _said:
        _said.add(sentence)
        log.log(level, sentence)
