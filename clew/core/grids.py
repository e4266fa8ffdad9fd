"""Batches of grids: which cells are real, and the orders in which they are read. Knows no layer.

A mask is None (all real) or boolean (batch, height, width). The real cells of an example are a rectangle at the top
left, with padding below and to the right. A flip acts within the rectangle of each example and leaves padding in place,
so that a reader from any corner meets padding last and its loop needs no mask.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from clew.core.errors import UserError
from clew.core.masks import reverse_rows


def check_grid_mask(x: Tensor, mask: Tensor | None) -> None:
    """Refuse a mask whose shape differs from the grids x (batch, height, width, ...), or whose real cells are not a
    rectangle at the top left."""
    if mask is None:
        return
    if mask.dtype != torch.bool or mask.shape != x.shape[:3]:
        raise UserError(
            f"a grid's mask is boolean with the shape {list(x.shape[:3])}, (batch, height, width), and this one is"
            f" {mask.dtype} with the shape {list(mask.shape)}"
        )
    if mask.device.type != "cpu" or torch.compiler.is_compiling():
        return  # reading the mask would wait for another device
    rows, columns = (torch.arange(real.shape[1]) < real.sum(1)[:, None] for real in (mask.any(2), mask.any(1)))
    wrong = (mask != rows[:, :, None] & columns[:, None, :]).flatten(1).any(1)
    if bool(wrong.any()):
        raise UserError(
            "the real cells of a grid must be a rectangle at its top left, and those of example"
            f" {int(wrong.int().argmax())} are not; move them there, with the padding below and to the right"
        )


def flip_grids(x: Tensor, mask: Tensor | None, *, rows: bool = False, columns: bool = False) -> Tensor:
    """Reverse the rows or columns of each example (batch, height, width, ...) within its real cells; its own
    inverse."""
    if rows:
        x = reverse_rows(x, None if mask is None else mask.any(2))
    if columns:
        x = reverse_rows(x.transpose(1, 2), None if mask is None else mask.any(1)).transpose(1, 2)
    return x


class Diagonals(NamedTuple):
    """The cells of a grid by anti-diagonals (row i + column j is constant), from the top left corner on.

    The cells of a diagonal are ordered from the top down. The neighbours above and to the left of a cell are both on
    the diagonal before it. Cells are sorted instead of skewing the grid, since almost half of a skewed square would be
    padding.
    """

    height: int
    width: int
    order: Tensor  # (cells,) raster index of each cell of the diagonals
    places: Tensor  # (cells,) diagonal index of each cell of the raster

    @property
    def sizes(self) -> list[int]:
        """Number of cells of each diagonal."""
        count = self.height + self.width - 1
        return [min(number + 1, self.height, self.width, count - number) for number in range(count)]

    @property
    def borders(self) -> list[tuple[int, int]]:
        """For each diagonal: 1 if its first cell is in the top row, and 1 if its last cell is in the left column, else
        0.

        Pad the diagonal before with so many border cells at its start and end. It is then one cell longer: without its
        last cell it holds the neighbours above, without its first cell those to the left.
        """
        return [(int(number < self.width), int(number < self.height)) for number in range(self.height + self.width - 1)]

    def from_raster(self, x: Tensor) -> Tensor:
        """(batch, height, width, ...) to (cells, batch, ...), where the cells of a diagonal of all examples are
        contiguous."""
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
    """Flatten grids (batch, height, width, ...) to sequences (batch, height * width, ...): the real cells of each
    example row by row, then its padding. `sequence_mask` is their mask."""
    cells = x.flatten(1, 2)
    if mask is None:
        return cells
    order = (~mask.flatten(1)).int().argsort(dim=1, stable=True)
    return cells.gather(1, order.view(*order.shape, *[1] * (cells.dim() - 2)).expand_as(cells))


def sequence_mask(mask: Tensor | None) -> Tensor | None:
    """Return the mask of `real_cells_first` (batch, height * width); None if all cells are real."""
    return None if mask is None else real_cells_first(mask, mask)


def grids_of_places(
    x: Tensor, mask: Tensor | None, places: Tensor, height: int, width: int
) -> tuple[Tensor, Tensor | None]:
    """Write sequences (batch, length, ...) into grids (batch, height, width, ...): each vector at its place (row by
    row), zeros elsewhere.

    Returns the grids and their mask, None if all cells are real. The inverse of `real_cells_first`.
    """
    if mask is None and x.shape[1] == height * width:
        return x.unflatten(1, (height, width)), None
    outside = height * width  # an extra place for padding
    index = places if mask is None else places.masked_fill(~mask, outside)
    cells = x.new_zeros(len(x), outside + 1, *x.shape[2:]).scatter(
        1, index.view(*index.shape, *[1] * (x.dim() - 2)).expand_as(x), x
    )
    real = torch.zeros(len(x), outside + 1, dtype=torch.bool, device=x.device).scatter(1, index, True)
    return cells[:, :-1].unflatten(1, (height, width)), real[:, :-1].unflatten(1, (height, width))


def join_blocks(x: Tensor, mask: Tensor | None, block: int) -> tuple[Tensor, Tensor | None]:
    """Join squares of `block` x `block` cells into one cell, with their vectors concatenated row by row, and zeros
    outside the grid:

    (batch, height, width, dim) to (batch, ceil(height / block), ceil(width / block), block * block * dim).
    """
    if mask is not None:
        x, mask = x.masked_fill(~mask[..., None], 0.0), mask[:, ::block, ::block]
    x = torch.nn.functional.pad(x, (0, 0, 0, -x.shape[2] % block, 0, -x.shape[1] % block))
    return x.unflatten(1, (-1, block)).unflatten(3, (-1, block)).transpose(2, 3).flatten(3), mask
