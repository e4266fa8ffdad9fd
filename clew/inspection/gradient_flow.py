"""How far back gradients reach: the norm of d loss_t / d h_{t-k} by k (Hochreiter 1991; Bengio et al. 1994; Pascanu et
al. 2013).

A layer's output feeds both the layer above and the next step, and the question is about the next step. So a text is
read one token at a time, and the gradient is taken at the carried state, which feeds only the next step. In a simple
recurrent network it is

    d loss_t / d h_{t-k} = d loss_t / d h_t  J_t J_{t-1} ... J_{t-k+1},      J_j = diag(1 - h_j^2) U

At k = 0 it is taken at the state h_t that the step itself produces. For any model, including attention, there is d
loss_t / d x_{t-k}, at the output of the embedding; for a model with a source, d loss_t / d x_s at every place s of the
source.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.core.modes import evaluating
from clew.core.state import map_state
from clew.core.types import State
from clew.inspection.recording import intervene
from clew.kernels import only_equations
from clew.layers.recurrent import RecurrentState

Step = Callable[[int, State], tuple[Tensor, State]]
"""A function that reads token t: (t, state) -> (loss_t, state)."""


@contextmanager
def with_gradients(task: nn.Module) -> Iterator[None]:
    """Put the task into evaluation mode with gradients enabled, in this context."""
    with evaluating([task]), torch.enable_grad():
        yield


def state_gradients(step: Step, state: State, ends: Sequence[int], steps: int) -> dict[str, Tensor]:
    """Return |d loss_t / d s_{t-k}| (ends, steps + 1) for each t of `ends` and k from 0 to `steps`, by part of the
    recurrent state.

    Parts are `0.h`, `0.c`, `1.h`, ..., with cells numbered from the lowest. Every end has t >= steps.
    """
    produced: list[dict[str, Tensor]] = []
    carried: list[dict[str, Tensor]] = []
    losses = {}
    for t in range(max(ends) + 1):
        with only_equations():  # the state that a kernel returns is not in the graph of its output
            loss, state = step(t, state)
        produced.append(recurrent_parts(state))
        # Feeds only the next step.
        state = map_state(lambda leaf: leaf.clone() if leaf.is_floating_point() else leaf, state)
        carried.append(recurrent_parts(state))
        if t in ends:
            losses[t] = loss
    parts = list(produced[0])
    norms_by_part: dict[str, list[list[float]]] = {part: [] for part in parts}
    for t in ends:
        before = [produced[t], *(carried[t - k] for k in range(1, steps + 1))]
        places = [each[part] for part in parts for each in before]
        gradients = torch.autograd.grad(losses[t], places, retain_graph=True, allow_unused=True)
        norms = iter([0.0 if gradient is None else float(torch.linalg.vector_norm(gradient)) for gradient in gradients])
        for part in parts:
            norms_by_part[part].append([next(norms) for _ in before])
    return {part: torch.tensor(rows, dtype=torch.float64) for part, rows in norms_by_part.items()}


def input_gradients(losses: Sequence[Tensor], x: Tensor, ends: Sequence[int], steps: int) -> Tensor:
    """Return |d loss_t / d x_{t-k}| (ends, steps + 1) for the losses at `ends`.

    x is the embedding's output for one row; its last axis is the vector, and any of the others may be the places.
    """
    rows = []
    for loss, t in zip(losses, ends, strict=True):
        (gradient,) = torch.autograd.grad(loss, x, retain_graph=True)
        norms = torch.linalg.vector_norm(gradient.reshape(-1, gradient.shape[-1]), dim=-1)
        rows.append(norms[t - steps : t + 1].flip(0).cpu().double())
    return torch.stack(rows)


def source_gradients(losses: Sequence[Tensor], x: Tensor) -> Tensor:
    """Return |d loss_t / d x_s| (losses, places), where x (1, places, dim) is the output of the source's embedding."""
    rows = []
    for loss in losses:
        (gradient,) = torch.autograd.grad(loss, x, retain_graph=True)
        rows.append(torch.linalg.vector_norm(gradient[0], dim=-1).cpu().double())
    return torch.stack(rows)


def recurrent_parts(state: State) -> dict[str, Tensor]:
    """Return the tensors of every cell's state, the lowest cell first."""
    return {
        f"{number}.{name}": leaf
        for number, cell in enumerate(cell_states(state))
        for name, leaf in parts_of(cell).items()
    }


def cell_states(state: State) -> list[State]:
    """Return the states of single cells inside a model's state, in any structure around them (a stack, attention, input
    feeding)."""
    if isinstance(state, RecurrentState):
        return single_cells(state.cell)
    if isinstance(state, (tuple, list)):
        return [cell for part in state for cell in cell_states(part)]
    return []


def single_cells(state: State) -> list[State]:
    if isinstance(state, tuple) and not hasattr(state, "_fields"):
        return [cell for part in state for cell in single_cells(part)]
    if hasattr(state, "memory"):  # an attentive cell: only its own state is recurrent
        return single_cells(state.cell)
    return [state]


def parts_of(cell: State) -> dict[str, Tensor]:
    if isinstance(cell, Tensor):
        return {"h": cell}
    return {SYMBOLS.get(name, name): leaf for name, leaf in cell._asdict().items() if isinstance(leaf, Tensor)}


SYMBOLS = {"hidden": "h", "cell": "c"}


class Reach(NamedTuple):
    """`steps` is the first k at which the curve is below the threshold times its value at k = 0, None if it never is;
    `most` is its largest value relative to the one at k = 0, above 1 if gradients grow."""

    steps: int | None
    most: float


def reach(curve: Tensor, threshold: float = 0.01) -> Reach:
    """Measure how far a curve of |gradient| (steps + 1,) by k reaches."""
    relative = curve / curve[0].clamp(min=torch.finfo(curve.dtype).tiny)
    below = (relative < threshold).nonzero()
    return Reach(int(below[0]) if len(below) else None, float(relative.max()))


def choose_ends(length: int, steps: int, count: int) -> tuple[list[int], int]:
    """Choose up to `count` places, spread over those with `steps` places before them; in a short text `steps` is
    reduced to half of it."""
    steps = min(steps, max((length - 1) // 2, 1))
    free = range(steps, length)
    return sorted(
        {free[round(place)] for place in torch.linspace(0, len(free) - 1, min(count, len(free))).tolist()}
    ), steps


def token_losses(log_probs: Tensor, targets: Tensor) -> Tensor:
    """Return -log p (length,) of each target, from log_probs (length, vocabulary)."""
    return F.nll_loss(log_probs, targets, reduction="none")


@contextmanager
def watched_embedding(task: Any, path: str) -> Iterator[list[Tensor]]:
    """Collect the outputs of an embedding in this context, in order, with gradients."""
    kept: list[Tensor] = []

    def keep(x: Tensor) -> Tensor:
        kept.append(x if x.requires_grad else x.requires_grad_())
        return kept[-1]

    with intervene(task, {path: keep}):
        yield kept


def clip_factor(parameters: Sequence[Tensor], losses: Tensor, most: float | None) -> tuple[float, float]:
    """Return the norm of the gradient of the mean loss over all parameters, and its clipping factor min(1, most /
    norm)."""
    gradients = torch.autograd.grad(losses.mean(), parameters, retain_graph=True, allow_unused=True)
    norm = float(
        torch.linalg.vector_norm(
            torch.stack([torch.linalg.vector_norm(each) for each in gradients if each is not None])
        )
    )
    return norm, 1.0 if most is None or norm <= most else most / norm
