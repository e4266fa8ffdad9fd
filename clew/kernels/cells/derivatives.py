"""A guard for the backward pass of a walk, which cannot be differentiated again."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from clew.core.errors import UserError


def first_derivative(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a backward pass to reject `create_graph=True`, which would treat its gradient as a constant."""
    once = once_differentiable(backward)

    @wraps(backward)
    def refusing(ctx: Any, *errors: Any) -> Any:
        if torch.is_grad_enabled():
            raise UserError(
                "this recurrence runs on a kernel whose gradient cannot be differentiated again (create_graph=True); "
                "run it inside `with clew.kernels.only_equations():`"
            )
        return once(ctx, *errors)

    return refusing
