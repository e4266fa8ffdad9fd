"""Recurrent cells: one step of recurrence. A cell knows no sequences, masks or kernels; `Recurrent` runs it over time.

    initial_state(batch_size, memory, like)     the state before the first step
    inputs(x (batch, length, dim)) -> tree      once per chunk: the part that does not depend on the state (W x,
                                                dropped weights in `Fixed`)
    forward(inputs_t, state) -> (y_t, state)    one step: the paper's equation

If some features of x are known only at each step (a context, the word written last), they are its last ones, and
`late_inputs(early_inputs(x_first)_t, x_last_t)` equals `inputs([x_first; x_last])_t`.

A cell with the same equation as a kernel of clew.kernels names it in `kernel` and returns its tensors from
`kernel_weights`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.core.errors import UserError
from clew.core.state import map_tree
from clew.core.taps import Tap
from clew.core.types import Fixed, Memory, State, Tree
from clew.layers.dropouts import checked, drop_weight
from clew.layers.sequence import uniform_init


class Recurrence(NamedTuple):
    """A chunk for a generated kernel: `step(inputs_t, state)`, and a function from its results to y and the cell's
    state."""

    step: Callable[[Tree, State], tuple[Tensor, State]]
    inputs: Tree
    state: State
    finish: Callable[[Tensor, State, Tensor | None], tuple[Tensor, State]]


class Cell(nn.Module):
    """The contract of cells, with defaults: the state is one hidden vector, the inputs are x itself."""

    kernel: str | None = None

    def __init__(self, input_dim: int, dim: int):
        super().__init__()
        if input_dim < 1 or dim < 1:
            raise UserError(f"a cell's widths must be at least 1, not input_dim={input_dim}, dim={dim}")
        self.input_dim = input_dim
        self.dim = dim

    def initial_state(self, batch_size: int, memory: Memory | None = None, *, like: Tensor) -> State:
        """Zeros, or the memory's final state if it has one."""
        if memory is not None and memory.final is not None:
            return memory.final
        return like.new_zeros(batch_size, self.dim)

    def inputs(self, x: Tensor) -> Tree:
        return x

    def early_inputs(self, x: Tensor) -> Tree:
        """Once per chunk: the part of the inputs that needs only the first features of x."""
        return x, Fixed(fixed_inputs(self, x))

    def late_inputs(self, early: Tree, x_t: Tensor) -> Tree:
        """The inputs of one step, from `early_inputs` and the last features `x_t` (batch, dim)."""
        first, fixed = early
        return inputs_at_step(self, torch.cat([first, x_t], -1), fixed.value)

    def recurrence(self, x: Tensor, state: State) -> Recurrence | None:
        """A chunk for a generated kernel; None if it cannot run this cell. The default, `forward` itself, needs states
        of one width."""
        return Recurrence(self.forward, self.inputs(x), state, lambda y, new, real: (y, new))

    def kernel_weights(self) -> tuple[Tensor, ...]:
        """The arguments of the kernel named in `kernel`: input weight, hidden weight, input bias, hidden bias, and any
        others."""
        raise NotImplementedError

    def kernel_state(self, state: Tree) -> State:
        """This cell's state from the kernel's result, a plain tuple: only the cell knows its own state's type."""
        return state


class Taps(nn.Module):
    """Named taps side by side: `self.gates.forget(f)`."""

    def __init__(self, *names: str):
        super().__init__()
        for name in names:
            self.add_module(name, Tap())

    def __getattr__(self, name: str) -> Any:
        return super().__getattr__(name)


class Gated(Cell):
    """The shared part of cells with `num_gates` stacked linear maps: one weight for all maps of x, one for all maps of
    h, one bias.

    A gate is as wide as h, or `gate_dim` wide.
    """

    def __init__(self, input_dim: int, dim: int, num_gates: int, weight_drop: float = 0.0, gate_dim: int | None = None):
        super().__init__(input_dim, dim)
        gate_dim = dim if gate_dim is None else gate_dim
        self.weight_drop = checked("weight_drop", weight_drop)
        self.input_weight = nn.Parameter(torch.empty(num_gates * gate_dim, input_dim))
        self.hidden_weight = nn.Parameter(torch.empty(num_gates * gate_dim, dim))
        self.bias = nn.Parameter(torch.empty(num_gates * gate_dim))
        uniform_init(gate_dim**-0.5, self.input_weight, self.hidden_weight, self.bias)
        # Kernels take a second bias; creating it in each decoding step would cost as much as a product.
        self.register_buffer("no_bias", torch.zeros(num_gates * gate_dim), persistent=False)
        self.no_bias: Tensor

    def inputs(self, x: Tensor) -> Tree:
        # `Fixed` marks a part without a length axis, which the loop over time must not slice.
        return F.linear(x, self.input_weight, self.bias), Fixed(self.dropped_hidden_weight())

    def early_inputs(self, x: Tensor) -> Tree:
        first, last = self.input_weight.split_with_sizes([x.shape[-1], self.input_dim - x.shape[-1]], 1)
        return F.linear(x, first, self.bias), Fixed((self.dropped_hidden_weight(), last))

    def late_inputs(self, early: Tree, x_t: Tensor) -> Tree:
        projected, fixed = early
        hidden_weight, last = fixed.value
        return torch.addmm(projected, x_t, last.mT), Fixed(hidden_weight)

    def dropped_hidden_weight(self) -> Tensor:
        return drop_weight(self.hidden_weight, self.weight_drop, self.training)

    def kernel_weights(self) -> tuple[Tensor, ...]:
        return self.input_weight, self.dropped_hidden_weight(), self.bias, self.no_bias


def fixed_inputs(cell: Cell, like: Tensor) -> Tree:
    """A cell's inputs for an empty chunk: only the parts that are fixed for a whole chunk."""
    return cell.inputs(like.new_zeros(like.shape[0], 0, cell.input_dim))


def inputs_at_step(cell: Cell, x_t: Tensor, fixed: Tree) -> Tree:
    """A cell's inputs for one step whose x is known only inside the loop, with the parts that `fixed_inputs` fixed for
    the chunk."""
    return with_fixed(map_tree(lambda leaf: leaf[:, 0], cell.inputs(x_t[:, None]), keep=(Fixed,)), fixed)


def with_fixed(step: Tree, chunk: Tree) -> Tree:
    """A cell's inputs, with the `Fixed` parts of another chunk's inputs."""
    if isinstance(chunk, Fixed):
        return chunk
    if isinstance(chunk, tuple):
        parts = [with_fixed(a, b) for a, b in zip(step, chunk, strict=True)]
        return type(step)(*parts) if hasattr(step, "_fields") else tuple(parts)
    return step
