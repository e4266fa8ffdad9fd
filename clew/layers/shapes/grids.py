"""Runs a cell over a grid, from one or several of its corners. Knows no particular cell.

    initial_state(batch_size, like)             the state of no cells: leaves (batch, 0, dim)
    inputs(x (cells, batch, input_dim))         once a grid: the part that does not depend on neighbours (W x + b)
    forward(inputs, up, left) -> state          one diagonal: the states (batch, cells, dim) of its cells, from the
                                                neighbours' states

A cell at (i, j) reads the one above it, (i-1, j), and the one to its left, (i, j-1). Both are on the previous
anti-diagonal, so all cells of a diagonal, in all examples, are computed in one step: height + width - 1 steps, not
height * width. States outside the grid are 0.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.core.errors import UserError
from clew.core.grids import Diagonals, check_grid_mask, diagonals_of, flip_grids, join_blocks
from clew.core.state import map_tree
from clew.core.taps import steps_of_a_loop
from clew.core.types import State
from clew.kernels import choose

CORNERS: dict[str, dict[str, bool]] = {
    "top_left": {},
    "bottom_right": {"rows": True, "columns": True},
    "top_right": {"columns": True},
    "bottom_left": {"rows": True},
}
"""The corners where a reader starts, and the flips that make the corner the top left."""
DIRECTIONS = (1, 2, 4)


class GridCell(nn.Module):
    """The contract of a cell on a grid. The first leaf of its state is h."""

    def __init__(self, input_dim: int, dim: int):
        super().__init__()
        if input_dim < 1 or dim < 1:
            raise UserError(f"a grid cell's widths must be at least 1, not input_dim={input_dim}, dim={dim}")
        self.input_dim = input_dim
        self.dim = dim

    def initial_state(self, batch_size: int, *, like: Tensor) -> State:
        raise NotImplementedError

    def inputs(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def forward(self, inputs: Tensor, up: State, left: State) -> State:
        raise NotImplementedError


class GridLayer(nn.Module):
    """Reads a grid from several corners, each with its own cell, and concatenates their h; `dim` is the total width.

    One reader starts at the top left, two at the top left and the bottom right, four at every corner. A reader from
    another corner reads a flipped grid: "above" and "left" are the neighbours it has already read. Ragged grids are
    flipped within their own height and width, so that every reader meets padding last and needs no mask. Outputs and
    taps are (batch, height, width, dim), 0 on padding.
    """

    kernel: str | None = None

    def __init__(self, build_cell: Callable[[], GridCell], directions: int):
        super().__init__()
        if directions not in DIRECTIONS:
            raise UserError(
                f"directions ({directions}) must be 1, 2 or 4: the number of corners that a grid is read from"
            )
        self.directions = directions
        cells = {corner: build_cell() for corner in list(CORNERS)[:directions]}
        self.cells: Any = nn.ModuleDict(cells)
        self.dim = sum(cell.dim for cell in cells.values())

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor]:
        check_grid_mask(x, mask)
        if x.shape[1] == 0 or x.shape[2] == 0:
            return (x.new_zeros(*x.shape[:3], self.dim),)
        if mask is not None:
            x = x.masked_fill(~mask[..., None], 0.0)  # padding may hold NaN, and its gradient would be 0 * NaN
        diagonals = diagonals_of(x.shape[1], x.shape[2], x.device)
        flipped = (flip_grids(x, mask, **CORNERS[corner]) for corner in self.cells)
        inputs = [
            cell.inputs(diagonals.from_raster(grid)) for cell, grid in zip(self.cells.values(), flipped, strict=True)
        ]

        def in_place(corner: str, hidden: Tensor) -> Tensor:
            """A reader's outputs (cells, batch, dim) as grids (batch, height, width, dim)."""
            hidden = flip_grids(diagonals.to_raster(hidden), mask, **CORNERS[corner])
            return hidden if mask is None else hidden.masked_fill(~mask[..., None], 0.0)

        kernel = choose(self.kernel, self)
        if kernel is not None:
            readings = kernel(inputs, [cell.hidden_weight for cell in self.cells.values()], diagonals)
        else:
            readings = [
                over_diagonals(cell, cell_inputs, diagonals, partial(in_place, corner))
                for (corner, cell), cell_inputs in zip(self.cells.items(), inputs, strict=True)
            ]
        return (torch.cat([in_place(corner, hidden) for corner, hidden in zip(self.cells, readings, strict=True)], -1),)


def over_diagonals(cell: GridCell, inputs: Tensor, diagonals: Diagonals, shown: Callable[[Tensor], Tensor]) -> Tensor:
    """h of every cell (cells, batch, dim), computed diagonal by diagonal. Taps show `shown` of the outputs (cells,
    batch, dim)."""
    state, hiddens = cell.initial_state(inputs.shape[1], like=inputs), []
    with steps_of_a_loop(lambda steps: shown(cells_of(steps))):
        for step, border in zip(inputs.transpose(0, 1).split(diagonals.sizes, 1), diagonals.borders, strict=True):
            # (batch, cells + 1, dim)
            previous = map_tree(lambda leaf, border=border: F.pad(leaf, (0, 0, *border)), state)
            up, left = map_tree(lambda leaf: leaf[:, :-1], previous), map_tree(lambda leaf: leaf[:, 1:], previous)
            state = cell(step, up, left)
            hiddens.append(state[0])
    return cells_of(hiddens)


def cells_of(steps: Sequence[Tensor]) -> Tensor:
    """Join diagonals (batch, cells, dim) into one tensor (cells, batch, dim)."""
    return torch.cat(list(steps), 1).transpose(0, 1)


class GridBlocks(nn.Module):
    """Maps each square of cells to one cell, between the layers of a hierarchy (Graves and Schmidhuber 2009).

        y = tanh(W [h_1; h_2; ...; h_n] + b)        n = block * block cells, row by row; 0 outside the grid

    Height and width become 1 / `block` of what they were.
    """

    def __init__(self, input_dim: int, dim: int, *, block: int = 2):
        super().__init__()
        if block < 1:
            raise UserError(f"block ({block}) must be at least 1")
        self.block = block
        self.map = nn.Linear(block * block * input_dim, dim)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        joined, mask = join_blocks(x, mask, self.block)
        return torch.tanh(self.map(joined)), mask
