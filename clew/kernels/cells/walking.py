"""Decide whether a cell is walked, that is run over a sequence from the trace of its step. Otherwise the caller loops,
and `--debug` shows the reason.

Before steps of a new structure are walked for the first time, values and gradients of a walk and a loop over a few
steps are compared. If they differ, which would be a fault of the walk, such steps run as a loop.
"""

import logging
from collections.abc import Hashable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from clew.core.modes import is_exporting
from clew.core.state import leaves, map_state, map_tree, where_rows
from clew.core.taps import is_watched
from clew.core.types import Fixed, State, Tree
from clew.kernels.cells.comparing import hidden_from_checkpoints, log_once, results_of
from clew.kernels.cells.native import may_compile
from clew.kernels.cells.tracing import Refused, Step, trace_step
from clew.kernels.cells.written_out import walk_written_out

LEAST_STEPS = 2
"""The minimum number of steps: a single step takes less time than its trace."""
COMPARED = 3
"""The number of steps that are compared."""
MOST_STRUCTURES = 16
"""The most structures of one cell that are compared. Numbers are part of a structure: a cell with one that changes in
every call, such as an annealed slope, would be compared and compiled in every call, which takes longer than a loop."""

_traced: MutableMapping[nn.Module, dict[tuple[bool, bool], bool]] = WeakKeyDictionary()
"""Whether a cell can be walked in training and in evaluation, with compiled steps and without; cached, since a trace
takes as long as a few steps."""
_agreement: dict[Hashable, bool] = {}
_num_compared: MutableMapping[nn.Module, int] = WeakKeyDictionary()
"""How many structures of a cell were compared."""


def may_walk(cell: Any, x: Tensor, state: State) -> bool:
    """Whether a chunk can be walked, judged by its first steps. The trial is hidden from checkpoints, which would
    otherwise record and repeat it."""
    if x.shape[1] < LEAST_STEPS or torch.compiler.is_compiling() or is_exporting() or is_watched(cell):
        return False
    if not len(x) or not (states := leaves(state)):
        return False
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return False  # torch.func does not use the backward pass of a walk
    answers, is_native = _traced.setdefault(cell, {}), may_compile(states[0], x.shape[1])
    key = cell.training, is_native
    if key not in answers:
        generators = [x.get_device()] if x.is_cuda else []
        with hidden_from_checkpoints(), unchanged_buffers(cell), torch.random.fork_rng(generators):
            try:
                trace_cell(cell, cell.inputs(x[:, :LEAST_STEPS]), state, is_native)
            except Refused as reason:
                log_once(logging.DEBUG, f"the steps of a {type(cell).__name__} run as a loop: {reason}")
                if reason.is_passing:
                    return False
                answers[key] = False
            else:
                answers[key] = True
    return answers[key]


@contextmanager
def unchanged_buffers(cell: nn.Module) -> Iterator[None]:
    """Undo changes to buffers within the context, such as the running statistics of a batch norm of the inputs."""
    before = [(buffer, buffer.clone()) for buffer in cell.buffers()]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, value in before:
                if buffer.is_cuda and torch.cuda.is_current_stream_capturing():
                    continue  # values cannot be compared here
                if not torch.equal(buffer, value):
                    buffer.copy_(value)


def trace_cell(cell: Any, inputs: Tree, state: State, is_native: bool) -> Step:
    step = trace_step(cell, inputs, state)
    if not step.inputs:
        raise Refused("it reads no inputs")
    if not is_native and any(name == "mean" and len(arguments) > 1 for name, *arguments in step.signature[0]):
        raise Refused("it takes means over several blocks, for which a loop needs fewer operations")
    return step


def walk_cell(cell: Any, inputs: Tree, real: Tensor | None, state: State) -> tuple[Tensor, State] | None:
    """Return y (batch, length, dim) and the state after each row's last real position (`real` is (batch, length)); None
    if the cell cannot be walked."""
    is_native = may_compile(leaves(state)[0], leaves(inputs, keep=(Fixed,))[0].shape[1])
    try:
        step = trace_cell(cell, inputs, state, is_native)
    except Refused as reason:
        log_once(logging.DEBUG, f"the steps of a {type(cell).__name__} run as a loop: {reason}")
        return None
    if not agrees_with_loop(cell, step, inputs, real, state, is_native):
        return None
    return walk_written_out(step, real, is_native)


def agrees_with_loop(cell: Any, step: Step, inputs: Tree, real: Tensor | None, state: State, is_native: bool) -> bool:
    """Whether a walk over steps of this structure agrees with a loop; the first steps with this structure are compared.
    In inference mode only values are, since inference tensors, such as a weight that `inputs` computed, have no
    gradient."""
    like = step.states[0]
    key = step.signature, real is not None, like.dtype, like.device.type, is_native, torch.is_inference_mode_enabled()
    if key not in _agreement:
        if like.is_cuda and torch.cuda.is_current_stream_capturing():
            return True  # values cannot be compared here
        if _num_compared.get(cell, 0) >= MOST_STRUCTURES:
            log_once(logging.DEBUG, f"a {type(cell).__name__} runs as a loop: its step has other numbers in every call")
            return False
        _num_compared[cell] = _num_compared.get(cell, 0) + 1
        _agreement[key] = _agree(cell, inputs, real, state, is_native)
        if not _agreement[key]:
            sentence = f"a {type(cell).__name__} runs as a loop: its walk differs from its steps; this is a bug in clew"
            log_once(logging.WARNING, sentence)
    return _agreement[key]


def _agree(cell: Any, inputs: Tree, real: Tensor | None, state: State, is_native: bool) -> bool:
    with_gradients = not torch.is_inference_mode_enabled()

    def part(leaf: Tensor) -> Tensor:
        return leaf.detach().clone().requires_grad_(with_gradients)  # a copy, since it may be an inference tensor

    real = None if real is None else real[:, :COMPARED]
    with hidden_from_checkpoints(), torch.set_grad_enabled(with_gradients):
        inputs = map_tree(lambda leaf: part(leaf[:, :COMPARED]), inputs, keep=(Fixed,))
        state = map_state(part, state)
        weights = [each for each in cell.parameters() if each.requires_grad]
        targets = [*leaves(inputs, keep=(Fixed,)), *leaves(state), *weights] if with_gradients else []
        looped = results_of(_loop(cell, inputs, real, state), real, targets)
        walked = results_of(walk_written_out(trace_step(cell, inputs, state), real, is_native), real, targets)
    near = torch.finfo(looped[0].dtype).eps ** 0.5
    pairs = zip(walked, looped, strict=True)
    return all(
        torch.allclose(a, b, rtol=near, atol=near * max(1.0, b.abs().max().item()), equal_nan=True)
        for a, b in pairs
        if b.numel()
    )


def _loop(cell: Any, inputs: Tree, real: Tensor | None, state: State) -> tuple[Tensor, State]:
    outputs = []
    for t in range(leaves(inputs, keep=(Fixed,))[0].shape[1]):
        y, new = cell(map_tree(lambda leaf, t=t: leaf[:, t], inputs, keep=(Fixed,)), state)
        state = new if real is None else where_rows(real[:, t], new, state)
        outputs.append(y)
    return torch.stack(outputs, 1), state
