"""A residual connection around one cell of a stack, run step by step."""

import torch
from torch import Tensor

from clew.core.errors import UserError
from clew.core.types import Memory, State, Tree
from clew.layers.cells import Cell


class ResidualCell(Cell):
    """y = x + cell(x); the state is the cell's. The counterpart of `Residual` for cells (Wu et al. 2016, section
    3.1)."""

    def __init__(self, cell: Cell):
        super().__init__(cell.input_dim, cell.dim)
        if cell.input_dim != cell.dim:
            raise UserError(
                f"a residual connection adds its input ({cell.input_dim} wide) to its output ({cell.dim} wide); make"
                " them equal"
            )
        self.cell = cell

    def initial_state(self, batch_size: int, memory: Memory | None = None, *, like: Tensor) -> State:
        return self.cell.initial_state(batch_size, memory, like=like)

    def inputs(self, x: Tensor) -> Tree:
        return self.cell.inputs(x), x

    def early_inputs(self, x: Tensor) -> Tree:
        return self.cell.early_inputs(x), x

    def late_inputs(self, early: Tree, x_t: Tensor) -> Tree:
        inner, first = early
        return self.cell.late_inputs(inner, x_t), torch.cat([first, x_t], -1)

    def forward(self, inputs: Tree, state: State) -> tuple[Tensor, State]:
        inner, x = inputs
        y, state = self.cell(inner, state)
        return x + y, state
