"""The penalty on recurrent layers whose gradients do not keep their norm from step to step (Pascanu et al. 2013, section 3.3).

    Omega = mean_k ( |dE/dx_{k+1} dx_{k+1}/dx_k| / |dE/dx_{k+1}| - 1 )^2

x_k is the state of a cell after step k, all its parts together, as in these authors' footnote: x_{k+1} = f(x_k, u_{k+1}). Only the
Jacobian dx_{k+1}/dx_k is differentiated, by the cell's own weights: states, inputs and the error dE/dx_{k+1} are constants. A row's mean is
over the steps within one document of the chunk; theirs is a sum. Cells are added up.

A cell whose output is no part of its state (one around attention, or with dropout inside) is left out.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn

from clew.core.state import leaves, with_leaves
from clew.core.types import State, Tree

_seen: ContextVar[list["Steps"] | None] = ContextVar("seen_steps", default=None)


class Steps:
    """The steps of one recurrence in a forward pass: inputs, states, and which rows went on."""

    def __init__(self, cell: nn.Module, inputs: list[Tree]):
        self.cell = cell
        self.inputs = inputs
        self.before: list[State] = []
        self.after: list[State] = []
        self.goes_on: list[Tensor | None] = []
        self.is_fit = True

    def add(self, before: State, y: Any, after: State, goes_on: Tensor | None) -> tuple[Any, State]:
        """One step's output and state, made so that all that becomes of the state goes through the tensors that are kept: h of an LSTM is
        made of its c, but c is what is carried."""
        made = leaves(after)
        kept = [leaf.clone() if leaf.is_floating_point() else leaf for leaf in made]
        self.is_fit &= any(y is leaf for leaf in made) and all(leaf.dim() == 2 and leaf.is_floating_point() for leaf in made)
        if not self.is_fit:
            return y, after
        state = with_leaves(after, kept)
        self.before.append(before)
        self.after.append(state)
        self.goes_on.append(goes_on)
        return next(new for new, leaf in zip(kept, made, strict=True) if leaf is y), state


@contextmanager
def seeing_steps(found: list[Steps]) -> Iterator[None]:
    """Within this context recurrences run as they are written, and their steps are added to `found`."""
    token = _seen.set(found)
    try:
        yield
    finally:
        _seen.reset(token)


def is_seen() -> bool:
    """Whether steps are kept; never of compiled layers, which training refuses together with the penalty."""
    return not torch.compiler.is_compiling() and _seen.get() is not None


def begin_steps(cell: nn.Module, inputs: list[Tree]) -> Steps | None:
    """Where the steps of a recurrence are to be kept, if they are. `inputs` are those of the cell with x a constant."""
    found = _seen.get()
    if found is None:
        return None
    steps = Steps(cell, inputs)
    found.append(steps)
    return steps


def penalty_of_rows(error: Tensor, seen: list[Steps]) -> Tensor:
    """Omega of every row (batch,), of an error that stands on the steps seen."""
    rows = [penalty_of(error, steps) for steps in seen if steps.is_fit and len(steps.after) > 1]
    return torch.stack(rows).sum(0) if rows else error.new_zeros(1)


def penalty_of(error: Tensor, steps: Steps) -> Tensor:
    """Of one recurrence, (batch,)."""
    # The first step starts from a state that no step of this chunk made.
    inputs, after, goes_on = steps.inputs[1:], steps.after[1:], steps.goes_on[1:]
    before = [with_leaves(state, [leaf.detach().requires_grad_() for leaf in leaves(state)]) for state in steps.before[1:]]
    places = [leaf for state in after for leaf in leaves(state)]
    found = torch.autograd.grad(error, places, retain_graph=True, allow_unused=True)
    errors = [torch.zeros_like(leaf) if gradient is None else gradient for leaf, gradient in zip(places, found, strict=True)]
    parts = len(places) // len(after)
    per_step = [errors[start : start + parts] for start in range(0, len(errors), parts)]
    sizes = [torch.cat([each.abs() for each in step], -1).amax(-1, keepdim=True) for step in per_step]
    scaled = [[each / size.clamp(min=torch.finfo(size.dtype).tiny) for each in step] for step, size in zip(per_step, sizes, strict=True)]

    made = [leaves(steps.cell(each, state)[1]) for each, state in zip(inputs, before, strict=True)]
    starts = [leaf for state in before for leaf in leaves(state)]
    outputs = [leaf for step in made for leaf in step]
    products = torch.autograd.grad(
        outputs, starts, [each for step in scaled for each in step], create_graph=True, allow_unused=True, materialize_grads=True
    )
    reached = torch.stack([norm(products[start : start + parts]) for start in range(0, len(products), parts)], 1)  # (batch, steps)
    given = torch.stack([norm(step) for step in scaled], 1)
    counted = given > 0
    if goes_on[0] is not None:
        counted = counted & torch.stack([each for each in goes_on if each is not None], 1)
    omega = torch.where(counted, reached / torch.where(counted, given, 1.0) - 1.0, 0.0).square()
    rows: Tensor = omega.sum(1) / counted.sum(1).clamp(min=1)
    return rows


def norm(parts: Any) -> Tensor:
    """(batch,) of vectors that stand side by side."""
    lengths: Tensor = torch.linalg.vector_norm(torch.cat(list(parts), -1), dim=-1)
    return lengths
