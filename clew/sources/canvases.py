"""Canvases: the image on which a map over an input is drawn, a picture or a sound's spectrogram. Draws nothing
itself."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Canvas:
    """An input as an image, with values from 0 to 255: a picture (height, width, 3), or (rows, columns) for axes that
    are not both lengths.

    `spread` turns values for each number that the model reads, in the shape of its inputs, into a map over the canvas
    (rows, columns). `cells` has the shape of the inputs without their features, and the place that each belongs to;
    `grid` is the number of rows and columns of places. If the places form a sequence, the canvas spans `length` in
    `unit`, and is called `name`.
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
        """How dark each pixel is on paper (rows, columns), from 0 to 255: loud sound and black pixels are dark."""
        if self.backdrop.ndim == 2:
            return self.backdrop
        darkness: np.ndarray = 255 - self.backdrop.mean(-1)
        return darkness

    def by_place(self, entries: Tensor) -> Tensor:
        """The sum of entries, in the shape of the inputs, over each place (places,)."""
        total = entries.new_zeros(self.grid[0] * self.grid[1])
        return total.index_add(0, self.cells.to(entries.device).flatten(), entries.sum(-1).flatten())


def cells_of_grid(height: int, width: int, cell: tuple[int, int], before: int = 0) -> Tensor:
    """The rectangle of size `cell` that each pixel (height, width) lies in, numbered row by row. The first starts
    `before` pixels outside the picture; the last reaches its end."""
    down, across = (
        ((torch.arange(side) + before) // step).clamp(max=-(-side // step) - 1)
        for side, step in zip((height, width), cell, strict=True)
    )
    return down[:, None] * (int(across[-1]) + 1) + across[None, :]


def as_levels(values: Tensor) -> np.ndarray:
    """Values of any range as bytes; the smallest becomes 0 and the largest 255."""
    low, high = float(values.min()), float(values.max())
    levels: np.ndarray = ((values - low) / max(high - low, 1e-12) * 255).round().to(torch.uint8).cpu().numpy()
    return levels
