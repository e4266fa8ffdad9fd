"""Steps that are left out because a loss or the gradient is not finite, decided on the device: the host need not wait
to find out.

torch's fused optimisers read a flag on the device, `found_inf`, and leave everything as it is where it is 1: weights,
moments and the count of steps. `torch.amp.GradScaler` uses the same flag.
"""

from typing import Any

import torch
from torch import Tensor

from clew.core.state import leaves, map_tree
from clew.core.types import State
from clew.training.optimisers import is_sharded


def reads_flag(optimiser: torch.optim.Optimizer) -> bool:
    """Whether an optimiser is one that `step_where` can be used with."""
    groups = optimiser.param_groups
    supports = bool(getattr(optimiser, "_step_supports_amp_scaling", False)) and all(
        group.get("fused") for group in groups
    )
    return supports and not any(is_sharded(parameter) for group in groups for parameter in group["params"])


def lacks_momentum(optimiser: torch.optim.Optimizer) -> bool:
    """Whether some momentum is still to be made: torch's fused SGD does so in the first step, and leaves it
    uninitialised where that is skipped."""
    return any(
        parameter.grad is not None and optimiser.state.get(parameter, {}).get("momentum_buffer") is None
        for group in optimiser.param_groups
        if group.get("momentum")
        for parameter in group["params"]
    )


def step_where(optimiser: Any, finite: Tensor) -> None:
    """A step of the optimiser where the tensor `finite` () is True; else nothing changes."""
    optimiser.grad_scale, optimiser.found_inf = None, (~finite).float()
    try:
        optimiser.step()
    finally:
        del optimiser.grad_scale, optimiser.found_inf


def have_same_shapes(first: State, second: State) -> bool:
    return [leaf.shape for leaf in leaves(first)] == [leaf.shape for leaf in leaves(second)]


def state_where(finite: Tensor, new: State, old: State) -> State:
    """The new state where the tensor `finite` () is True, else the old one, whose shapes are the same."""
    return map_tree(lambda *pair: torch.where(finite, *pair), new, old)
