"""The backward pass of a walk, which has no derivative of its own."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from clew.core.errors import UserError


def first_derivative(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Refuses `create_graph=True`, under which a gradient without a graph would be taken for a constant."""
    once = once_differentiable(backward)

    @wraps(backward)
    def refusing(ctx: Any, *errors: Any) -> Any:
        if torch.is_grad_enabled():
            raise UserError(
                "this recurrence runs on a kernel, whose gradient has no derivative (create_graph=True); "
                "run it inside `with clew.kernels.only_equations():`"
            )
        return once(ctx, *errors)

    return refusing
