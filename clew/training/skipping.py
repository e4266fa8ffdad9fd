"""Skip steps with a non-finite loss or gradient. The decision is made on the device, so that the host does not wait.

torch's fused optimisers read a flag on the device, `found_inf`. If it is 1, they change nothing: not the weights, the
moments or the step count. `torch.amp.GradScaler` uses the same flag.
"""

from typing import Any

import torch
from torch import Tensor

from clew.core.state import leaves, map_tree
from clew.core.types import State
from clew.training.optimisers import is_sharded


def reads_flag(optimiser: torch.optim.Optimizer) -> bool:
    """Whether an optimiser reads `found_inf`, so that it can be used with `step_where`."""
    groups = optimiser.param_groups
    supports = bool(getattr(optimiser, "_step_supports_amp_scaling", False)) and all(
        group.get("fused") for group in groups
    )
    return supports and not any(is_sharded(parameter) for group in groups for parameter in group["params"])


def lacks_momentum(optimiser: torch.optim.Optimizer) -> bool:
    """Whether a momentum buffer does not exist yet. torch's fused SGD creates it in the first step, and leaves it
    uninitialised if that step is skipped."""
    return any(
        parameter.grad is not None and optimiser.state.get(parameter, {}).get("momentum_buffer") is None
        for group in optimiser.param_groups
        if group.get("momentum")
        for parameter in group["params"]
    )


def step_where(optimiser: Any, finite: Tensor) -> None:
    """Take a step of the optimiser if the tensor `finite` () is True; else change nothing."""
    optimiser.grad_scale, optimiser.found_inf = None, (~finite).float()
    try:
        optimiser.step()
    finally:
        del optimiser.grad_scale, optimiser.found_inf


def have_same_shapes(first: State, second: State) -> bool:
    return [leaf.shape for leaf in leaves(first)] == [leaf.shape for leaf in leaves(second)]


def state_where(finite: Tensor, new: State, old: State) -> State:
    """Return the new state if the tensor `finite` () is True, else the old one, which must have the same shapes."""
    return map_tree(lambda *pair: torch.where(finite, *pair), new, old)
