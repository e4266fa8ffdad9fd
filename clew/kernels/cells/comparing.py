"""Comparison of a walk of a cell with a loop over its steps, and messages that are logged once per process."""

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
    """Return y at real positions, the state, and the gradients of a weighted sum of both with respect to `wanted`."""
    y, state = walked
    outputs = [y if real is None else torch.where(real[..., None], y, 0.0), *leaves(state)]
    weights = [
        torch.linspace(-1, 1, each.numel(), dtype=each.dtype, device=each.device).view_as(each) for each in outputs
    ]
    # The graph may be part of a whole chunk's graph, which is still needed.
    gradients = torch.autograd.grad(outputs, wanted, weights, retain_graph=True, allow_unused=True)
    return [
        *(each.detach() for each in outputs),
        *(torch.zeros_like(x) if g is None else g for x, g in zip(wanted, gradients, strict=True)),
    ]


def aside() -> AbstractContextManager[None]:
    """Hide tensors saved for the backward pass in this context, so that checkpoints do not recompute a trial
    computation."""
    return torch.autograd.graph.saved_tensors_hooks(_same, _same)


def _same(tensor: Tensor) -> Tensor:
    return tensor


def share(actual: Tensor, expected: Tensor) -> float:
    """Return |actual - expected| / |expected|."""
    actual, expected = actual.double(), expected.double()
    return float((actual - expected).norm() / expected.norm().clamp(min=1e-6))


def say(level: int, sentence: str) -> None:
    """Log a sentence once per process; `--debug` shows those below a warning."""
    if sentence not in _said:
        _said.add(sentence)
        log.log(level, sentence)
