"""What a map over an input is drawn on: the picture itself, or a sound's spectrogram. Draws nothing."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Canvas:
    """An input as a person sees it, from 0 to 255: a picture (height, width, 3), or (rows, columns) where rows and columns are no lengths.

    `spread` makes of what is said of each number that the model reads, in the shape in which it reads them, a map over the canvas (rows,
    columns). `cells` has the shape of what is read without its features, and says which place each belongs to; `grid` is how many rows
    and columns of places there are. Where places follow one another, the canvas goes over `length` of a `unit`, under a `name`.
    """

    backdrop: np.ndarray
    spread: Callable[[Tensor], Tensor]
    cells: Tensor
    grid: tuple[int, int]
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    row_label: str = ""
    column_label: str = ""
    length: float = 0.0
    unit: str = ""
    name: str = ""

    @property
    def darkness(self) -> np.ndarray:
        """How dark it is drawn on paper (rows, columns), from 0 to 255: where a sound is loud, and where a picture is black."""
        if self.backdrop.ndim == 2:
            return self.backdrop
        found: np.ndarray = 255 - self.backdrop.mean(-1)
        return found

    def by_place(self, entries: Tensor) -> Tensor:
        """The sum over what belongs to each place (places,), of entries in the shape of what is read."""
        total = entries.new_zeros(self.grid[0] * self.grid[1])
        return total.index_add(0, self.cells.to(entries.device).flatten(), entries.sum(-1).flatten())


def cells_of_grid(height: int, width: int, cell: tuple[int, int], before: int = 0) -> Tensor:
    """Which rectangle of the size `cell` each pixel (height, width) is in, counted row by row. The first would begin `before` pixels
    outside, and the last reaches to the end."""
    down, across = (
        ((torch.arange(side) + before) // step).clamp(max=-(-side // step) - 1) for side, step in zip((height, width), cell, strict=True)
    )
    return down[:, None] * (int(across[-1]) + 1) + across[None, :]


def as_levels(values: Tensor) -> np.ndarray:
    """Values of any range as bytes, the greatest being 255."""
    low, high = float(values.min()), float(values.max())
    found: np.ndarray = ((values - low) / max(high - low, 1e-12) * 255).round().to(torch.uint8).cpu().numpy()
    return found
