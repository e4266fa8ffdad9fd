"""Penalty on recurrent gradients whose norm changes from step to step (Pascanu et al. 2013, section 3.3).

    Omega = mean_k ( |dE/dx_{k+1} dx_{k+1}/dx_k| / |dE/dx_{k+1}| - 1 )^2

x_k is the state of a cell after step k, all its parts together, as in the paper's footnote: x_{k+1} = f(x_k, u_{k+1}).
Only the Jacobian dx_{k+1}/dx_k is differentiated, with respect to the cell's own weights: states, inputs and the error
dE/dx_{k+1} are constants. A row's mean is over the steps within one document of the chunk; the paper takes a sum.
Omegas of several cells are added.

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

_recorded: ContextVar[list["Steps"] | None] = ContextVar("recorded_steps", default=None)


class Steps:
    """The steps of one recurrence in a forward pass: inputs, states, and which rows continued from the previous
    step."""

    def __init__(self, cell: nn.Module, inputs: list[Tree]):
        self.cell = cell
        self.inputs = inputs
        self.before: list[State] = []
        self.after: list[State] = []
        self.continues: list[Tensor | None] = []
        self.is_fit = True

    def add(self, before: State, y: Any, after: State, continues: Tensor | None) -> tuple[Any, State]:
        """The output and state of one step, rebuilt so that everything later depends on the recorded tensors: an LSTM's
        h is computed from its c, but the gradient with respect to the carried c is needed."""
        computed = leaves(after)
        recorded = [leaf.clone() if leaf.is_floating_point() else leaf for leaf in computed]
        self.is_fit &= any(y is leaf for leaf in computed) and all(
            leaf.dim() == 2 and leaf.is_floating_point() for leaf in computed
        )
        if not self.is_fit:
            return y, after
        state = with_leaves(after, recorded)
        self.before.append(before)
        self.after.append(state)
        self.continues.append(continues)
        return next(new for new, leaf in zip(recorded, computed, strict=True) if leaf is y), state


@contextmanager
def recording_steps(steps: list[Steps]) -> Iterator[None]:
    """Within this context, recurrences run as equations and append their steps to `steps`."""
    token = _recorded.set(steps)
    try:
        yield
    finally:
        _recorded.reset(token)


def is_recording() -> bool:
    """Whether steps are recorded; never in compiled layers, which training refuses together with the penalty."""
    return not torch.compiler.is_compiling() and _recorded.get() is not None


def begin_steps(cell: nn.Module, inputs: list[Tree]) -> Steps | None:
    """Start recording a recurrence, if steps are recorded. `inputs` are the cell's, computed from a constant x."""
    recorded = _recorded.get()
    if recorded is None:
        return None
    steps = Steps(cell, inputs)
    recorded.append(steps)
    return steps


def penalty_of_rows(error: Tensor, recorded: list[Steps]) -> Tensor:
    """Omega of every row (batch,), for an error that depends on the recorded steps."""
    rows = [penalty_of(error, steps) for steps in recorded if steps.is_fit and len(steps.after) > 1]
    return torch.stack(rows).sum(0) if rows else error.new_zeros(1)


def penalty_of(error: Tensor, steps: Steps) -> Tensor:
    """Omega of one recurrence (batch,)."""
    # The first step is left out: it starts from a state that no step of this chunk computed.
    inputs, after, continues = steps.inputs[1:], steps.after[1:], steps.continues[1:]
    before = [
        with_leaves(state, [leaf.detach().requires_grad_() for leaf in leaves(state)]) for state in steps.before[1:]
    ]
    new_leaves = [leaf for state in after for leaf in leaves(state)]
    gradients = torch.autograd.grad(error, new_leaves, retain_graph=True, allow_unused=True)
    errors = [
        torch.zeros_like(leaf) if gradient is None else gradient
        for leaf, gradient in zip(new_leaves, gradients, strict=True)
    ]
    parts = len(new_leaves) // len(after)
    per_step = [errors[start : start + parts] for start in range(0, len(errors), parts)]
    sizes = [torch.cat([part.abs() for part in step], -1).amax(-1, keepdim=True) for step in per_step]
    scaled = [
        [part / size.clamp(min=torch.finfo(size.dtype).tiny) for part in step]
        for step, size in zip(per_step, sizes, strict=True)
    ]

    new_states = [leaves(steps.cell(part, state)[1]) for part, state in zip(inputs, before, strict=True)]
    old_leaves = [leaf for state in before for leaf in leaves(state)]
    outputs = [leaf for step in new_states for leaf in step]
    products = torch.autograd.grad(
        outputs,
        old_leaves,
        [part for step in scaled for part in step],
        create_graph=True,
        allow_unused=True,
        materialize_grads=True,
    )
    by_step = [norm(products[start : start + parts]) for start in range(0, len(products), parts)]
    propagated_norms = torch.stack(by_step, 1)  # (batch, steps)
    error_norms = torch.stack([norm(step) for step in scaled], 1)
    counted = error_norms > 0
    if continues[0] is not None:
        counted = counted & torch.stack([part for part in continues if part is not None], 1)
    omega = torch.where(counted, propagated_norms / torch.where(counted, error_norms, 1.0) - 1.0, 0.0).square()
    rows: Tensor = omega.sum(1) / counted.sum(1).clamp(min=1)
    return rows


def norm(parts: Any) -> Tensor:
    """The norm (batch,) of several vectors, concatenated."""
    lengths: Tensor = torch.linalg.vector_norm(torch.cat(list(parts), -1), dim=-1)
    return lengths
