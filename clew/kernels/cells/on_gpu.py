"""Decide whether a cell's recurrence runs on the GPU kernel, once per cell and kind of call, with a few steps.

For a user's own cell, values and gradients of the kernel are compared with the equation. If they differ, which would be
a fault of the kernel, the cell runs as a loop.
"""

import logging
from collections.abc import Callable, Hashable, MutableMapping
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from clew.core.state import leaves, map_tree
from clew.core.types import State
from clew.kernels.cells.comparing import hidden_from_checkpoints, log_once, results_of, share
from clew.kernels.cells.persistent import fits, number_for, walk_persistent
from clew.kernels.cells.tracing import Refused, trace_step

ASKED_STEPS = 6
ALLOWED = {torch.float32: 1e-4, torch.bfloat16: 0.06, torch.float16: 0.02}
"""The maximum relative difference of a kernel's values and gradients from the equation's in the same dtype."""

Loop = Callable[[Tensor, Tensor | None, State], tuple[Tensor, State]]

_uses_kernel: MutableMapping[nn.Module, dict[Hashable, bool]] = WeakKeyDictionary()


def walk_on_gpu(cell: Any, x: Tensor, real: Tensor | None, state: State, loop: Loop) -> tuple[Tensor, State] | None:
    """Return y and the cell's state, or None if the recurrence must run in another way. `loop` runs its equation."""
    first = next(iter(leaves(state)), None)
    if first is None or not fits(x, first) or is_transformed():
        return None
    answers, key = _uses_kernel.setdefault(cell, {}), key_of(cell, x, state)
    if key not in answers:
        if torch.cuda.is_current_stream_capturing():
            return None  # nothing can be compiled or compared during a capture; captured code has normally run before
        with hidden_from_checkpoints():
            answers[key] = uses_kernel(cell, x, real, state, loop)
    return walked(cell, x, real, state) if answers[key] else None


def is_transformed() -> bool:
    """Whether a function mode or a torch.func transform is active; steps are not traced then."""
    return bool(torch._C._len_torch_function_stack()) or torch._C._functorch.peek_interpreter_stack() is not None


def key_of(cell: Any, x: Tensor, state: State) -> Hashable:
    """Return everything on which the use of the kernel depends."""
    hooks = any(module._forward_hooks or module._forward_pre_hooks for module in cell.modules())
    weights = tuple((type(weight), weight.dtype) for weight in cell.parameters())
    return (
        cell.training,
        x.device,
        len(x),
        number_for(x),
        tuple((leaf.shape, leaf.dtype) for leaf in leaves(state)),
        hooks,
        weights,
    )


def uses_kernel(cell: Any, x: Tensor, real: Tensor | None, state: State, loop: Loop) -> bool:
    """Whether a few steps run on the kernel and, for a user's own cell, agree with its equation."""
    is_own = not type(cell).__module__.startswith("clew.")  # clew's tests compare its own cells
    generators = [x.get_device()] if x.is_cuda else []
    with torch.inference_mode(False), torch.set_grad_enabled(is_own or torch.is_grad_enabled()):
        # Copies, since inference tensors have no gradient.
        piece, state = (map_tree(lambda leaf: leaf.detach().clone(), tree) for tree in (x[:, :ASKED_STEPS], state))
        mask = None if real is None else real[:, :ASKED_STEPS].clone()
        piece.requires_grad_(is_own)
        # Both runs draw the same random numbers, and later steps draw as if neither had run.
        with torch.random.fork_rng(generators):
            kernel_results = walked(cell, piece, mask, state)
        if kernel_results is None or not is_own:
            return kernel_results is not None
        with torch.random.fork_rng(generators):
            looped = loop(piece, mask, state)
        inputs = [piece, *(weight for weight in cell.parameters() if weight.requires_grad)]
        results = [results_of(each, mask, inputs) for each in (kernel_results, looped)]
        difference = max(share(a, b) for a, b in zip(*results, strict=True))
    if difference <= ALLOWED[number_for(x)]:
        return True
    sentence = (
        f"a {type(cell).__name__} runs as a loop: its kernel differs from its equation by {difference:.1e} of the"
        " values"
    )
    log_once(logging.WARNING, f"{sentence}; this is a bug in clew")
    return False


def walked(cell: Any, x: Tensor, real: Tensor | None, state: State) -> tuple[Tensor, State] | None:
    if real is not None:  # padding may hold NaN, and 0 * NaN is NaN
        x = torch.where(real[..., None], x, 0.0)
    recurrence = cell.recurrence(x, state)
    if recurrence is None:
        return None
    try:
        step = trace_step(recurrence.step, recurrence.inputs, recurrence.state)
    except Refused as reason:
        log_once(logging.DEBUG, f"a {type(cell).__name__} has no kernel: {reason}")
        return None
    result = walk_persistent(step, real, cell.kernel is not None)
    return None if result is None else recurrence.finish(*result, real)
