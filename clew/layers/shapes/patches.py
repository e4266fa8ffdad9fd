"""Pictures cut into patches (Dosovitskiy et al. 2021), and positions in a grid, with a row and a column.

Members of GRID_POSITIONS are built as `P(dim, *, options)`.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.core.errors import UserError
from clew.layers.positions import sinusoids


def cut_patches(pixels: Tensor, height: int, width: int) -> Tensor:
    """Patches (batch, height', width', height * width * channels) of pictures (batch, height, width, channels), each in
    raster order with the channels of a pixel together. Patches that reach beyond a picture are padded with zeros."""
    rows, columns = pixels.shape[1:3]
    whole = F.pad(pixels, (0, 0, 0, -columns % width, 0, -rows % height))
    # (batch, height', height, width', width, channels)
    parted = whole.unflatten(1, (-1, height)).unflatten(3, (-1, width))
    patches: Tensor = parted.transpose(2, 3).flatten(3)
    return patches


class PatchReader(nn.Module):
    """Patches of `height` x `width` pixels, unchanged: the linear map after it makes the patch embeddings of ViT.
    Patches of one pixel give the picture pixel by pixel, and patches as wide as the picture give its rows."""

    def __init__(self, height: int, width: int, channels: int = 3):
        super().__init__()
        if min(height, width, channels) < 1:
            raise UserError(
                f"a patch must have at least 1 x 1 pixel and 1 channel, not {height} x {width} and {channels}"
            )
        self.channels = channels
        self.cell = (height, width)
        self.width = height * width * channels

    def grid_sizes(self, sizes: Tensor) -> Tensor:
        """The heights and widths (batch, 2) of the pictures' grids."""
        cell = torch.tensor(self.cell, device=sizes.device)
        return (sizes + cell - 1) // cell

    def forward(self, pixels: Tensor, sizes: Tensor | None = None) -> Tensor:
        """`pixels` must be zero beyond each picture."""
        return cut_patches(pixels, *self.cell)


class GridPosition(nn.Module):
    """No positions: the vectors of a grid are distinguished only by their order."""

    def __init__(self, dim: int):
        super().__init__()
        self.dim = dim

    def forward(self, rows: Tensor, columns: Tensor, like: Tensor) -> Tensor:
        """The vectors to add at these rows and columns (batch, length): (batch, length, dim)."""
        return like.new_zeros(())


class SinusoidalGrid(GridPosition):
    """Sinusoids of the row in the first half of the features, of the column in the other (Vaswani et al. 2017, in two
    dimensions):

    p(i, j) = [sinusoids(i); sinusoids(j)]
    """

    def __init__(self, dim: int, *, base: float = 10000.0):
        super().__init__(dim)
        self.base = base

    def forward(self, rows: Tensor, columns: Tensor, like: Tensor) -> Tensor:
        half = self.dim // 2
        return torch.cat([sinusoids(rows, self.dim - half, self.base), sinusoids(columns, half, self.base)], -1).to(
            like.dtype
        )


class LearnedGrid(GridPosition):
    """A learned vector per row and per column: p(i, j) = R[i] + C[j] (Dehghani et al. 2023). ViT learns one per place,
    which pictures of other proportions could not share."""

    def __init__(self, dim: int, *, max_height: int = 64, max_width: int = 64):
        super().__init__(dim)
        self.max_height, self.max_width = max_height, max_width
        self.rows, self.columns = nn.Parameter(torch.empty(max_height, dim)), nn.Parameter(torch.empty(max_width, dim))
        for table in (self.rows, self.columns):
            nn.init.normal_(table, std=0.02)

    def forward(self, rows: Tensor, columns: Tensor, like: Tensor) -> Tensor:
        self.check(rows, self.max_height, "rows", "max_height")
        self.check(columns, self.max_width, "columns", "max_width")
        return (self.rows[rows] + self.columns[columns]).to(like.dtype)

    def check(self, places: Tensor, most: int, what: str, option: str) -> None:
        """Refuse a grid larger than the tables. On a GPU this does not synchronise."""
        if not places.numel() or torch.compiler.is_compiling():
            return
        if places.device.type == "cuda":
            torch._assert_async(places.max() < most, f"a grid has more {what} than the model has learnt")
        elif (last := int(places.max())) >= most:
            raise UserError(
                f"the grid has {last + 1} {what}, but the model has learnt {most}; make the picture smaller or its"
                f" patches larger, or train with a larger {option}, or with sinusoidal places"
            )


GRID_POSITIONS: dict[str, Callable[..., GridPosition]] = {
    "none": GridPosition,
    "sinusoidal": SinusoidalGrid,
    "learned": LearnedGrid,
}
