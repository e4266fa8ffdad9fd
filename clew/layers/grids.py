"""A cell run over a grid, from one of its corners or from several. Knows no particular cell.

    initial_state(batch_size, like)             the state of no cells: leaves (batch, 0, dim)
    inputs(x (cells, batch, input_dim))         once a grid: what does not depend on neighbours (W x + b)
    forward(inputs, up, left) -> state          one diagonal: the states (batch, cells, dim) of its cells from those of the neighbours

A cell at (i, j) reads the ones above it, (i-1, j), and to its left, (i, j-1). Both are on the anti-diagonal before its own, so that all
cells of a diagonal, of all examples, are one step: height + width - 1 steps in place of height * width. Outside the grid states are 0.
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
"""Where a reader starts, and what is flipped so that this is the top left."""
DIRECTIONS = (1, 2, 4)


class GridCell(nn.Module):
    """The contract of a cell on a grid. A state's first leaf is h."""

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
    """Readers of a grid from its corners, a cell with weights of its own for each, their h side by side; `dim` is the width of all.

    One starts at the top left, two at the top left and the bottom right, four at every corner. A reader from another corner than the top
    left reads a flipped grid: "above" is what it has read of the same column, "left" what it has read of the same row. Ragged grids are
    flipped each within its own height and width. What comes out, and what taps show, is (batch, height, width, dim), 0 on padding.
    """

    kernel: str | None = None

    def __init__(self, build_cell: Callable[[], GridCell], directions: int):
        super().__init__()
        if directions not in DIRECTIONS:
            raise UserError(f"a grid is read from 1, 2 or 4 of its corners, not in directions={directions}")
        self.directions = directions
        cells = {corner: build_cell() for corner in list(CORNERS)[:directions]}
        self.cells: Any = nn.ModuleDict(cells)
        self.dim = sum(cell.dim for cell in cells.values())

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor]:
        check_grid_mask(x, mask)
        if x.shape[1] == 0 or x.shape[2] == 0:
            return (x.new_zeros(*x.shape[:3], self.dim),)
        if mask is not None:
            x = x.masked_fill(~mask[..., None], 0.0)  # a gradient of 0 times NaN would be NaN
        diagonals = diagonals_of(x.shape[1], x.shape[2], x.device)
        flipped = (flip_grids(x, mask, **CORNERS[corner]) for corner in self.cells)
        inputs = [cell.inputs(diagonals.from_raster(grid)) for cell, grid in zip(self.cells.values(), flipped, strict=True)]

        def in_place(corner: str, found: Tensor) -> Tensor:
            """(cells, batch, dim) of a reader to (batch, height, width, dim)."""
            found = flip_grids(diagonals.to_raster(found), mask, **CORNERS[corner])
            return found if mask is None else found.masked_fill(~mask[..., None], 0.0)

        kernel = choose(self.kernel, self)
        if kernel is not None:
            readings = kernel(inputs, [cell.hidden_weight for cell in self.cells.values()], diagonals)
        else:
            readings = [
                over_diagonals(cell, given, diagonals, partial(in_place, corner))
                for (corner, cell), given in zip(self.cells.items(), inputs, strict=True)
            ]
        return (torch.cat([in_place(corner, found) for corner, found in zip(self.cells, readings, strict=True)], -1),)


def over_diagonals(cell: GridCell, inputs: Tensor, diagonals: Diagonals, shown: Callable[[Tensor], Tensor]) -> Tensor:
    """h of every cell (cells, batch, dim), diagonal by diagonal; of what passes a tap (cells, batch, dim), `shown` is what is seen."""
    state, found = cell.initial_state(inputs.shape[1], like=inputs), []
    with steps_of_a_loop(lambda steps: shown(cells_of(steps))):
        for step, border in zip(inputs.transpose(0, 1).split(diagonals.sizes, 1), diagonals.borders, strict=True):
            before = map_tree(lambda leaf, border=border: F.pad(leaf, (0, 0, *border)), state)  # (batch, cells + 1, dim)
            up, left = map_tree(lambda leaf: leaf[:, :-1], before), map_tree(lambda leaf: leaf[:, 1:], before)
            state = cell(step, up, left)
            found.append(state[0])
    return cells_of(found)


def cells_of(steps: Sequence[Tensor]) -> Tensor:
    """Diagonals (batch, cells, dim) as one (cells, batch, dim)."""
    return torch.cat(list(steps), 1).transpose(0, 1)


class GridBlocks(nn.Module):
    """Squares of cells as one cell, between layers of a hierarchy (Graves and Schmidhuber 2009).

        y = tanh(W [h_1; h_2; ...; h_n] + b)        n = block * block cells, row by row; 0 outside the grid

    A grid becomes `block` times as low and as narrow.
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
