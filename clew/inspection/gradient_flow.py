"""How far back gradients reach: the size of d loss_t / d h_{t-k} against k (Hochreiter 1991; Bengio et al. 1994; Pascanu et al. 2013).

A layer's output goes up as well as on, and what is asked is how it goes on. So a text is read one token at a time and the gradient is
taken at the state that is carried from one step to the next, which leads nowhere but on. Of a simple recurrent network it is

    d loss_t / d h_{t-k} = d loss_t / d h_t  J_t J_{t-1} ... J_{t-k+1},      J_j = diag(1 - h_j^2) U

At k = 0 it is taken at the state that the step itself makes, h_t. Of any model at all, attention too, there is d loss_t / d x_{t-k}, at
what the embedding gives; of one that reads a source, d loss_t / d x_s at every place s of that.
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
"""Reads token t: (t, state) -> (loss_t, state)."""


@contextmanager
def with_gradients(task: nn.Module) -> Iterator[None]:
    """In evaluation mode, gradients on."""
    with evaluating([task]), torch.enable_grad():
        yield


def state_gradients(step: Step, state: State, ends: Sequence[int], steps: int) -> dict[str, Tensor]:
    """|d loss_t / d s_{t-k}| (ends, steps + 1) for each t of `ends` and k from 0 to `steps`, by part of the recurrent state: `0.h`, `0.c`,
    `1.h`, ..., a number a cell from the lowest. An end stands at t >= steps."""
    made: list[dict[str, Tensor]] = []
    carried: list[dict[str, Tensor]] = []
    losses = {}
    for t in range(max(ends) + 1):
        with only_equations():  # a kernel's state is no part of what it gives
            loss, state = step(t, state)
        made.append(recurrent_parts(state))
        state = map_state(lambda leaf: leaf.clone() if leaf.is_floating_point() else leaf, state)  # what goes on, and not up
        carried.append(recurrent_parts(state))
        if t in ends:
            losses[t] = loss
    parts = list(made[0])
    found: dict[str, list[list[float]]] = {part: [] for part in parts}
    for t in ends:
        before = [made[t], *(carried[t - k] for k in range(1, steps + 1))]
        places = [each[part] for part in parts for each in before]
        gradients = torch.autograd.grad(losses[t], places, retain_graph=True, allow_unused=True)
        norms = iter([0.0 if gradient is None else float(torch.linalg.vector_norm(gradient)) for gradient in gradients])
        for part in parts:
            found[part].append([next(norms) for _ in before])
    return {part: torch.tensor(rows, dtype=torch.float64) for part, rows in found.items()}


def input_gradients(losses: Sequence[Tensor], x: Tensor, ends: Sequence[int], steps: int) -> Tensor:
    """|d loss_t / d x_{t-k}| (ends, steps + 1) of the losses at `ends`, x being what the embedding gave: one row, its last axis the vector,
    whichever of the others counts places."""
    rows = []
    for loss, t in zip(losses, ends, strict=True):
        (gradient,) = torch.autograd.grad(loss, x, retain_graph=True)
        norms = torch.linalg.vector_norm(gradient.reshape(-1, gradient.shape[-1]), dim=-1)
        rows.append(norms[t - steps : t + 1].flip(0).cpu().double())
    return torch.stack(rows)


def source_gradients(losses: Sequence[Tensor], x: Tensor) -> Tensor:
    """|d loss_t / d x_s| (losses, places), x (1, places, dim) being what the source's embedding gave."""
    rows = []
    for loss in losses:
        (gradient,) = torch.autograd.grad(loss, x, retain_graph=True)
        rows.append(torch.linalg.vector_norm(gradient[0], dim=-1).cpu().double())
    return torch.stack(rows)


def recurrent_parts(state: State) -> dict[str, Tensor]:
    """The tensors of every cell's state, the lowest first."""
    return {f"{number}.{name}": leaf for number, cell in enumerate(cell_states(state)) for name, leaf in parts_of(cell).items()}


def cell_states(state: State) -> list[State]:
    """The states of single cells inside a model's, whatever stands around them (a stack, attention, what is fed back)."""
    if isinstance(state, RecurrentState):
        return single_cells(state.cell)
    if isinstance(state, (tuple, list)):
        return [cell for part in state for cell in cell_states(part)]
    return []


def single_cells(state: State) -> list[State]:
    if isinstance(state, tuple) and not hasattr(state, "_fields"):
        return [cell for part in state for cell in single_cells(part)]
    if hasattr(state, "memory"):  # a cell that looks around: its own state is what goes on
        return single_cells(state.cell)
    return [state]


def parts_of(cell: State) -> dict[str, Tensor]:
    if isinstance(cell, Tensor):
        return {"h": cell}
    return {SYMBOLS.get(name, name): leaf for name, leaf in cell._asdict().items() if isinstance(leaf, Tensor)}


SYMBOLS = {"hidden": "h", "cell": "c"}


class Reach(NamedTuple):
    """`steps` is the first k at which the curve is below the threshold times its value at k = 0, None where it never is; `most` is the
    largest value beside the one at k = 0, above 1 where gradients grow."""

    steps: int | None
    most: float


def reach(curve: Tensor, threshold: float = 0.01) -> Reach:
    """Of |gradient| (steps + 1,) against k."""
    relative = curve / curve[0].clamp(min=torch.finfo(curve.dtype).tiny)
    below = (relative < threshold).nonzero()
    return Reach(int(below[0]) if len(below) else None, float(relative.max()))


def choose_ends(length: int, steps: int, count: int) -> tuple[list[int], int]:
    """Up to `count` places spread over those that have `steps` before them; where a text is short, as many steps as half of it."""
    steps = min(steps, max((length - 1) // 2, 1))
    free = range(steps, length)
    return sorted({free[round(place)] for place in torch.linspace(0, len(free) - 1, min(count, len(free))).tolist()}), steps


def token_losses(log_probs: Tensor, targets: Tensor) -> Tensor:
    """-log p (length,) of each target, from log_probs (length, vocabulary)."""
    return F.nll_loss(log_probs, targets, reduction="none")


@contextmanager
def watched_embedding(task: Any, path: str) -> Iterator[list[Tensor]]:
    """Within this context what an embedding gives is kept as it passes, in order, and gradients are taken of it."""
    kept: list[Tensor] = []

    def keep(x: Tensor) -> Tensor:
        kept.append(x if x.requires_grad else x.requires_grad_())
        return kept[-1]

    with intervene(task, {path: keep}):
        yield kept


def clip_factor(parameters: Sequence[Tensor], losses: Tensor, most: float | None) -> tuple[float, float]:
    """The norm of the mean loss's gradient by all parameters, and what it is multiplied by where it is clipped: min(1, most / norm)."""
    gradients = torch.autograd.grad(losses.mean(), parameters, retain_graph=True, allow_unused=True)
    norm = float(torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(each) for each in gradients if each is not None])))
    return norm, 1.0 if most is None or norm <= most else most / norm
