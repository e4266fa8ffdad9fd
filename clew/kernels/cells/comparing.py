"""Compare a walk of a cell with a loop over its steps, and log messages once per process."""

import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager

import torch
from torch import Tensor

from clew.core.state import leaves
from clew.core.types import State

log = logging.getLogger("clew.kernels")
_logged: set[str] = set()


def results_of(walked: tuple[Tensor, State], real: Tensor | None, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Return y at real positions, the state, and the gradients of a weighted sum of both with respect to `inputs`, if
    any."""
    y, state = walked
    outputs = [y if real is None else torch.where(real[..., None], y, 0.0), *leaves(state)]
    if not inputs:
        return outputs
    weights = [
        torch.linspace(-1, 1, each.numel(), dtype=each.dtype, device=each.device).view_as(each) for each in outputs
    ]
    # The graph may be part of a whole chunk's graph, which is still needed.
    gradients = torch.autograd.grad(outputs, inputs, weights, retain_graph=True, allow_unused=True)
    return [
        *(each.detach() for each in outputs),
        *(torch.zeros_like(x) if g is None else g for x, g in zip(inputs, gradients, strict=True)),
    ]


def hidden_from_checkpoints() -> AbstractContextManager[None]:
    """Hide tensors saved for the backward pass within the context, so that checkpoints do not recompute a trial
    computation."""
    return torch.autograd.graph.saved_tensors_hooks(_same, _same)


def _same(tensor: Tensor) -> Tensor:
    return tensor


def share(actual: Tensor, expected: Tensor) -> float:
    """Return |actual - expected| / |expected|."""
    actual, expected = actual.double(), expected.double()
    return float((actual - expected).norm() / expected.norm().clamp(min=1e-6))


def log_once(level: int, sentence: str) -> None:
    """Log a sentence once per process; `--debug` shows levels below a warning."""
    if sentence not in _logged:
        _logged.add(sentence)
        log.log(level, sentence)
