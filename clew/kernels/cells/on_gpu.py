"""Whether a cell's recurrence goes to the GPU's kernel, and the check of a user's own cell the first time that it does."""

import logging
from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import Tensor

from clew.core.state import leaves, map_tree
from clew.core.types import State
from clew.kernels.cells.comparing import results_of, say, share
from clew.kernels.cells.persistent import fits, walk
from clew.kernels.cells.tracing import Refused, trace_step

CHECKED_STEPS, CHECKED_ROWS = 6, 4
ALLOWED = {torch.float32: 1e-4, torch.bfloat16: 0.06, torch.float16: 0.02}
"""How far a kernel's values and gradients may be from the equation's in the same type, as a share of all of them."""

Loop = Callable[[Tensor, Tensor | None, State], tuple[Tensor, State]]

_refused: set[Hashable] = set()
_checked: dict[Hashable, bool] = {}


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
    except Refused as reason:
        say(logging.DEBUG, f"a {type(cell).__name__} has no kernel: {reason}")
        return None
    found = walk(step, real, cell.kernel is not None)
    return None if found is None else recurrence.finish(*found, real)


def is_ours(cell: Any) -> bool:
    """Cells of clew's own are compared with their equations by its tests."""
    return type(cell).__module__.startswith("clew.")


def is_right(cell: Any, key: Hashable, x: Tensor, state: State, loop: Loop) -> bool:
    """Whether a few steps of a few rows come out as the equation has them, with their gradients: looked at the first time."""
    if key not in _checked:
        if torch.cuda.is_current_stream_capturing():
            return True  # numbers cannot be compared here; what is captured has run before
        number = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else x.dtype
        difference = difference_of(cell, x[:CHECKED_ROWS, :CHECKED_STEPS].detach(), state, loop)
        _checked[key] = difference <= ALLOWED.get(number, 0.0)
        if not _checked[key]:
            sentence = f"a {type(cell).__name__} is looped: its kernel differs from its equation by {difference:.1e} of the values"
            say(logging.WARNING, f"{sentence}; this is a fault in clew")
    return _checked[key]


def difference_of(cell: Any, x: Tensor, state: State, loop: Loop) -> float:
    """The largest share by which values or gradients differ; 0 where the kernel is not taken for so small a piece."""
    state = map_tree(lambda leaf: leaf[:CHECKED_ROWS].detach(), state)
    with torch.enable_grad():
        wanted = [x.requires_grad_(), *(weight for weight in cell.parameters() if weight.requires_grad)]
        if (found := walked(cell, x, None, state)) is None:
            return 0.0
        results = [results_of(each, None, wanted) for each in (found, loop(x, None, state))]
    return max(share(a, b) for a, b in zip(*results, strict=True))
