"""Whether a cell's recurrence goes to the GPU's kernel, and the check of a user's own cell the first time that it does."""

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from clew.core.state import leaves, map_tree
from clew.core.types import State
from clew.kernels.cells.persistent import fits, walk
from clew.kernels.cells.tracing import Refused, trace_step

CHECKED_STEPS, CHECKED_ROWS = 6, 4
ALLOWED = {torch.float32: 1e-4, torch.bfloat16: 0.06, torch.float16: 0.02}
"""How far a kernel's values and gradients may be from the equation's in the same type, as a share of all of them."""

Loop = Callable[[Tensor, Tensor | None, State], tuple[Tensor, State]]

_refused: set[Any] = set()
_checked: dict[Any, bool] = {}


def walk_on_gpu(cell: Any, x: Tensor, real: Tensor | None, state: State, loop: Loop) -> tuple[Tensor, State] | None:
    """y and the cell's state; None where the recurrence has to be run in another way. `loop` runs it as it is written."""
    first = next(iter(leaves(state)), None)
    if first is None or not fits(x, first):
        return None
    # What was refused once is not traced again, which would compute its inputs for nothing.
    key = type(cell), cell.training, x.dtype, first.dtype, tuple(first.shape), torch.is_autocast_enabled("cuda")
    if key in _refused:
        return None
    found = walked(cell, x, real, state)
    if found is None:
        _refused.add(key)
    return found if found is None or is_ours(cell) or is_right(cell, key, x, state, loop) else None


def walked(cell: Any, x: Tensor, real: Tensor | None, state: State) -> tuple[Tensor, State] | None:
    if real is not None:  # padding may hold NaN, and 0 * NaN is NaN
        x = torch.where(real[..., None], x, 0.0)
    recurrence = cell.recurrence(x, state)
    if recurrence is None:
        return None
    try:
        step = trace_step(recurrence.step, recurrence.inputs, recurrence.state)
    except Refused:
        return None
    found = walk(step, real, cell.kernel is not None)
    return None if found is None else recurrence.finish(*found, real)


def is_ours(cell: Any) -> bool:
    """Cells of clew's own are compared with their equations by its tests."""
    return type(cell).__module__.startswith("clew.")


def is_right(cell: Any, key: Any, x: Tensor, state: State, loop: Loop) -> bool:
    """Whether a few steps of a few rows come out as the equation has them, with their gradients: looked at the first time."""
    if key not in _checked:
        if torch.cuda.is_current_stream_capturing():
            return True  # nothing can be compared in a capture; what is captured has run before
        difference = difference_of(cell, x[:CHECKED_ROWS, :CHECKED_STEPS].detach(), state, loop)
        number = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else x.dtype
        _checked[key] = difference is None or difference <= ALLOWED.get(number, 0.0)
        if not _checked[key]:
            name = type(cell).__name__
            warnings.warn(f"{name} runs step by step: its kernel differs from its equation by {difference:.1e} of the values", stacklevel=2)
    return _checked[key]


def difference_of(cell: Any, x: Tensor, state: State, loop: Loop) -> float | None:
    """The largest share by which values or gradients differ; None where the kernel is not taken for so small a piece."""
    rows = map_tree(lambda leaf: leaf[:CHECKED_ROWS].detach(), state)
    fast_x, slow_x = (x.clone().requires_grad_() for _ in range(2))
    with torch.enable_grad(), torch.random.fork_rng([x.get_device()]):
        found = walked(cell, fast_x, None, rows)
        if found is None:
            return None
        wanted = loop(slow_x, None, rows)
        weights = [weight for weight in cell.parameters() if weight.requires_grad]
        of_y = torch.randn(wanted[0].shape, device=x.device, dtype=torch.float32)
        results = []
        for (y, new), given in ((found, fast_x), (wanted, slow_x)):
            total = (y.float() * of_y).sum() + sum(leaf.float().sum() for leaf in leaves(new))
            gradients = torch.autograd.grad(total, [given, *weights], allow_unused=True)
            results.append([y, *leaves(new), *(gradient for gradient in gradients if gradient is not None)])
    return max(share(a, b) for a, b in zip(*results, strict=True))


def share(found: Tensor, wanted: Tensor) -> float:
    found, wanted = found.detach().double(), wanted.detach().double()
    return float((found - wanted).norm() / wanted.norm().clamp(min=1e-6))
