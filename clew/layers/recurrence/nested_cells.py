"""Cells made of cells: a stack that runs each step through all of them, and dropout on a cell's output."""

from collections.abc import Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from clew.core.errors import UserError, unknown
from clew.core.types import Fixed, Memory, State, Tree
from clew.layers.cell import Cell, fixed_inputs, inputs_at_step
from clew.layers.dropouts import DROPOUTS


class StackedCell(Cell):
    """A stack of cells as one cell: each step runs them all, so that surrounding cells (attention, feeding) see the top
    at every step."""

    def __init__(self, cells: Sequence[Cell]):
        super().__init__(cells[0].input_dim, cells[-1].dim)
        for below, above in zip(cells, cells[1:], strict=False):
            if below.dim != above.input_dim:
                raise UserError(
                    f"a cell of width {below.dim} cannot feed one that takes {above.input_dim}; make the two equal"
                )
        self.cells: Any = nn.ModuleList(cells)

    def initial_state(self, batch_size: int, memory: Memory | None = None, *, like: Tensor) -> State:
        finals = memory.final if memory is not None and memory.final is not None else [None] * len(self.cells)
        parts = [None if memory is None else memory._replace(final=final) for final in finals]
        return tuple(
            cell.initial_state(batch_size, part, like=like) for cell, part in zip(self.cells, parts, strict=True)
        )

    def inputs(self, x: Tensor) -> Tree:
        return self.cells[0].inputs(x), self.fixed_above(x)

    def early_inputs(self, x: Tensor) -> Tree:
        return self.cells[0].early_inputs(x), self.fixed_above(x)

    def late_inputs(self, early: Tree, x_t: Tensor) -> Tree:
        first, above = early
        return self.cells[0].late_inputs(first, x_t), above

    def fixed_above(self, x: Tensor) -> Fixed:
        return Fixed(tuple(fixed_inputs(cell, x) for cell in list(self.cells)[1:]))

    def forward(self, inputs: Tree, state: State) -> tuple[Tensor, State]:
        first, above = inputs
        y, new = self.cells[0](first, state[0])
        states = [new]
        for cell, fixed, before in zip(list(self.cells)[1:], above.value, state[1:], strict=True):
            y, new = cell(inputs_at_step(cell, y, fixed), before)
            states.append(new)
        return y, tuple(states)


class DroppedCell(Cell):
    """y = dropout(cell(x)), without dropout on the state; the counterpart of `Plain` for cells. `locked` draws one mask
    per chunk."""

    def __init__(self, cell: Cell, p: float, kind: str = "plain"):
        super().__init__(cell.input_dim, cell.dim)
        if kind not in DROPOUTS:
            raise unknown("dropout_kind", kind, DROPOUTS)
        self.cell = cell
        self.p = p
        self.locked = kind == "locked"

    def initial_state(self, batch_size: int, memory: Memory | None = None, *, like: Tensor) -> State:
        return self.cell.initial_state(batch_size, memory, like=like)

    def inputs(self, x: Tensor) -> Tree:
        return self.cell.inputs(x), self.kept(x)

    def early_inputs(self, x: Tensor) -> Tree:
        return self.cell.early_inputs(x), self.kept(x)

    def late_inputs(self, early: Tree, x_t: Tensor) -> Tree:
        inner, kept = early
        return self.cell.late_inputs(inner, x_t), kept

    def kept(self, x: Tensor) -> Fixed:
        """The locked mask that multiplies y at every step; None if each step draws its own."""
        return Fixed(
            F.dropout(x.new_ones(x.shape[0], self.dim), self.p) if self.locked and self.training and self.p else None
        )

    def forward(self, inputs: Tree, state: State) -> tuple[Tensor, State]:
        inner, kept = inputs
        y, state = self.cell(inner, state)
        if kept.value is not None:
            return y * kept.value, state
        return F.dropout(y, self.p, self.training and not self.locked), state
