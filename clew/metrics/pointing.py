"""The pointing game: whether attention looks at the thing that a word refers to, if that is known. Knows no model and
no data.


    pointing = 100 * (words whose highest weight is on a place that touches their thing) / (words that refer to a thing)

A place of a grid touches a thing if one of the thing's pixels lies in the place's cell.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Pointed(NamedTuple):
    """How many words point at the thing they refer to, and how many refer to a thing."""

    right: int
    words: int

    @property
    def share(self) -> float:
        """In per cent; NaN if there are no such words."""
        return 100 * self.right / self.words if self.words else float("nan")


def touched_cells(
    numbers: np.ndarray, count: int, cell: tuple[int, int], size: tuple[int, int], before: int = 0
) -> np.ndarray:
    """For each thing, numbered from 1 to `count`, the cells (count, rows, columns) that it touches.

    `numbers` (height, width) has the number of the thing at each pixel, 0 for none. The grid covers the picture as the
    model reads it: resized to `size` (height, width) and cut into cells of `cell` pixels. The first cell starts
    `before` pixels outside the picture; the last reaches its end.
    """
    grid = [-(-new // step) for new, step in zip(size, cell, strict=True)]
    pixels = [(2 * np.arange(old) + 1) * new // (2 * old) for old, new in zip(numbers.shape, size, strict=True)]
    places = [np.minimum((at + before) // step, most - 1) for at, step, most in zip(pixels, cell, grid, strict=True)]
    touches = np.zeros((count, *grid), dtype=bool)
    down, across = np.nonzero(numbers)
    touches[numbers[down, across].astype(int) - 1, places[0][down], places[1][across]] = True
    return touches


def pointed(weights: np.ndarray, things: Sequence[int | None], touched: np.ndarray) -> Pointed:
    """Scores weights (words, places), with places in raster order. `things` has the index from 0 of the thing that each
    word refers to, or None; an index beyond `touched` (things, rows, columns) is a thing that is not in the picture,
    which no word can point at."""
    referring = [(row, thing) for row, thing in enumerate(things) if thing is not None]
    flat = touched.reshape(len(touched), -1)
    right = sum(thing < len(flat) and bool(flat[thing, int(weights[row].argmax())]) for row, thing in referring)
    return Pointed(right, len(referring))
