"""Grids of cells side by side: which cells are real, and the orders in which they are read. Knows no layer.

A mask is None (all real) or boolean (batch, height, width). An example's real cells are a rectangle at the top left, so that padding is
below and to the right of them; a flip turns each example within its own rectangle, and leaves padding where it is.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from clew.core.errors import UserError
from clew.core.masks import reverse_rows


def check_grid_mask(x: Tensor, mask: Tensor | None) -> None:
    """Refuses a mask of other sizes than the grids x (batch, height, width, ...), or whose real cells are no rectangle at the top left."""
    if mask is None:
        return
    if mask.dtype != torch.bool or mask.shape != x.shape[:3]:
        raise UserError(
            f"a grid's mask is boolean with the shape {list(x.shape[:3])}, (batch, height, width), and this one is {mask.dtype} with "
            f"the shape {list(mask.shape)}"
        )
    if mask.device.type != "cpu" or torch.compiler.is_compiling():
        return  # elsewhere looking would wait for the device
    rows, columns = (torch.arange(real.shape[1]) < real.sum(1)[:, None] for real in (mask.any(2), mask.any(1)))
    wrong = (mask != rows[:, :, None] & columns[:, None, :]).flatten(1).any(1)
    if bool(wrong.any()):
        raise UserError(
            f"the real cells of a grid must be a rectangle at its top left, and those of example {int(wrong.int().argmax())} are not; "
            "move them there, with the padding below and to the right"
        )


def flip_grids(x: Tensor, mask: Tensor | None, *, rows: bool = False, columns: bool = False) -> Tensor:
    """Each example (batch, height, width, ...) upside down where `rows`, and its left side right where `columns`; twice is nothing."""
    if rows:
        x = reverse_rows(x, None if mask is None else mask.any(2))
    if columns:
        x = reverse_rows(x.transpose(1, 2), None if mask is None else mask.any(1)).transpose(1, 2)
    return x


class Diagonals(NamedTuple):
    """A grid's cells by anti-diagonals, the top left corner first: row i + column j is the same all along one.

    Those of a diagonal stand from the top down. A cell's neighbours above and to the left are both on the diagonal before its own.
    """

    height: int
    width: int
    order: Tensor  # (cells,) which cell of the raster stands here
    places: Tensor  # (cells,) where each cell of the raster stands

    @property
    def sizes(self) -> list[int]:
        """How many cells each diagonal has."""
        count = self.height + self.width - 1
        return [min(number + 1, self.height, self.width, count - number) for number in range(count)]

    @property
    def borders(self) -> list[tuple[int, int]]:
        """For each diagonal 1 where its first cell is in the top row, and 1 where its last is in the left column, else 0.

        The diagonal before it, with so many cells of the border put before and behind it, is one cell longer than it: without the last
        of them these are the neighbours above its cells, without the first those to the left.
        """
        return [(int(number < self.width), int(number < self.height)) for number in range(self.height + self.width - 1)]

    def from_raster(self, x: Tensor) -> Tensor:
        """(batch, height, width, ...) to (cells, batch, ...): those of a diagonal, of all examples, lie together."""
        return x.flatten(1, 2).transpose(0, 1).index_select(0, self.order)

    def to_raster(self, x: Tensor) -> Tensor:
        """(cells, batch, ...) to (batch, height, width, ...)."""
        raster: Tensor = x.index_select(0, self.places).transpose(0, 1).unflatten(1, (self.height, self.width))
        return raster


def diagonals_of(height: int, width: int, device: torch.device) -> Diagonals:
    rows, columns = torch.arange(height, device=device)[:, None], torch.arange(width, device=device)
    order = ((rows + columns) * height + rows).flatten().argsort()
    return Diagonals(height, width, order, order.argsort())


def real_cells_first(x: Tensor, mask: Tensor | None) -> Tensor:
    """Grids (batch, height, width, ...) as sequences (batch, height * width, ...): each example's real cells in raster order, row by row,
    then its padding. `sequence_mask` is their mask."""
    cells = x.flatten(1, 2)
    if mask is None:
        return cells
    order = (~mask.flatten(1)).int().argsort(dim=1, stable=True)
    return cells.gather(1, order.view(*order.shape, *[1] * (cells.dim() - 2)).expand_as(cells))


def sequence_mask(mask: Tensor | None) -> Tensor | None:
    """Which positions of `real_cells_first` are real (batch, height * width); None where all are."""
    return None if mask is None else real_cells_first(mask, mask)


def grids_of_places(x: Tensor, mask: Tensor | None, places: Tensor, height: int, width: int) -> tuple[Tensor, Tensor | None]:
    """Sequences (batch, length, ...) as grids (batch, height, width, ...), each vector at its place, counted row by row, and zeros
    elsewhere; and which cells are real, None where all are. It is `real_cells_first` the other way round."""
    if mask is None and x.shape[1] == height * width:
        return x.unflatten(1, (height, width)), None
    outside = height * width  # one place more, for padding
    index = places if mask is None else places.masked_fill(~mask, outside)
    cells = x.new_zeros(len(x), outside + 1, *x.shape[2:]).scatter(1, index.view(*index.shape, *[1] * (x.dim() - 2)).expand_as(x), x)
    real = torch.zeros(len(x), outside + 1, dtype=torch.bool, device=x.device).scatter(1, index, True)
    return cells[:, :-1].unflatten(1, (height, width)), real[:, :-1].unflatten(1, (height, width))


def join_blocks(x: Tensor, mask: Tensor | None, block: int) -> tuple[Tensor, Tensor | None]:
    """Squares of `block` x `block` cells become one cell: their vectors side by side, row by row, zeros outside the grid.

    (batch, height, width, dim) to (batch, ceil(height / block), ceil(width / block), block * block * dim).
    """
    if mask is not None:
        x, mask = x.masked_fill(~mask[..., None], 0.0), mask[:, ::block, ::block]
    x = torch.nn.functional.pad(x, (0, 0, 0, -x.shape[2] % block, 0, -x.shape[1] % block))
    return x.unflatten(1, (-1, block)).unflatten(3, (-1, block)).transpose(2, 3).flatten(3), mask
