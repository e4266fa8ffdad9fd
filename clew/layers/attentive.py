"""Recurrent decoders that look at a memory at every step. A decoder cell is a cell, so `Recurrent` runs it and beams reorder it."""

from typing import NamedTuple

import torch
from torch import Tensor

from clew.core.errors import UserError
from clew.core.types import Fixed, Memory, State, Tree
from clew.layers.attention import Attention, attend_memory, fold_beams, unfold_beams
from clew.layers.cells import Cell, fixed_inputs, inputs_at_step
from clew.layers.scores import Score


class AttentiveState(NamedTuple):
    cell: State
    memory: Memory


class AttentiveCell(Cell):
    """Attention before the cell (Bahdanau et al. 2015).

        context = sum_i softmax_i(score(s, h_i)) h_i
        s'      = cell([x; context], s)
        y       = [s'; context]

    The query is the cell's output of the step before, or its initial state. `cell` takes input_dim + memory_dim features.
    """

    def __init__(self, input_dim: int, memory_dim: int, cell: Cell, score: Score):
        super().__init__(input_dim, cell.dim + memory_dim)
        if cell.input_dim != input_dim + memory_dim:
            raise UserError(
                f"an attentive cell hands its inner cell [x; context] of width {input_dim + memory_dim}, but it takes {cell.input_dim}"
            )
        self.cell = cell
        self.attention = Attention(score)

    def initial_state(self, batch_size: int, memory: Memory | None = None, *, like: Tensor) -> State:
        if memory is None:
            raise UserError("an attentive decoder needs something to attend to; give initial_state a memory")
        return AttentiveState(self.cell.initial_state(batch_size, memory, like=like), Memory(memory.values, memory.mask))

    def inputs(self, x: Tensor) -> Tree:
        return x, Fixed(fixed_inputs(self.cell, x))

    def forward(self, inputs: Tree, state: AttentiveState) -> tuple[Tensor, AttentiveState]:
        x, fixed = inputs
        hidden = query_of(state.cell)
        values = state.memory.values[:, None]  # (sentences, 1, length, dim)
        query = fold_beams(hidden[:, None], len(values))[:, None]
        context = unfold_beams(attend_memory(self.attention, query, values, values, state.memory.mask)[:, 0], len(x))[:, 0]
        y, cell_state = self.cell(inputs_at_step(self.cell, torch.cat([x, context], -1), fixed.value), state.cell)
        return torch.cat([y, context], -1), AttentiveState(cell_state, state.memory)


def query_of(state: State) -> Tensor:
    """The hidden vector of a cell's state: the state itself, its first part, or that of the topmost cell of a stack."""
    while not isinstance(state, Tensor):
        state = state[0] if hasattr(state, "_fields") else state[-1]
    return state
