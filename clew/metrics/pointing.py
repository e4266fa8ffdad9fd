"""Pointing: whether attention looks at what a word speaks of, where the truth is known. Knows no model and no data.

    pointing = 100 * (words whose place of most weight touches their thing) / (words that speak of a thing)

A place of a grid touches a thing where one of the thing's pixels lies in the place's cell.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Pointed(NamedTuple):
    """How many words look at what they speak of, and how many speak of anything."""

    right: int
    words: int

    @property
    def share(self) -> float:
        """In percent; NaN where there are no such words."""
        return 100 * self.right / self.words if self.words else float("nan")


def touched_cells(numbers: np.ndarray, count: int, cell: tuple[int, int], size: tuple[int, int], before: int = 0) -> np.ndarray:
    """For each thing from 1 to `count`, which cells (count, rows, columns) it touches.

    `numbers` (height, width) has the number of the thing at each pixel, 0 where there is none. The grid lies on the picture as it is read:
    resized to `size`, height and width, and cut into cells of so many pixels down and across, the first of which would begin `before`
    pixels outside; the last reaches to the end.
    """
    grid = [-(-new // step) for new, step in zip(size, cell, strict=True)]
    pixels = [(2 * np.arange(old) + 1) * new // (2 * old) for old, new in zip(numbers.shape, size, strict=True)]
    places = [np.minimum((at + before) // step, most - 1) for at, step, most in zip(pixels, cell, grid, strict=True)]
    found = np.zeros((count, *grid), dtype=bool)
    down, across = np.nonzero(numbers)
    found[numbers[down, across].astype(int) - 1, places[0][down], places[1][across]] = True
    return found


def pointed(weights: np.ndarray, things: Sequence[int | None], touched: np.ndarray) -> Pointed:
    """Of weights (words, places) of a grid, row by row, and the number from 0 of the thing that each word speaks of; None of no thing. A
    number beyond those of `touched` (things, rows, columns) is a thing that is not there, at which nothing can look."""
    spoken = [(row, thing) for row, thing in enumerate(things) if thing is not None]
    flat = touched.reshape(len(touched), -1)
    right = sum(thing < len(flat) and bool(flat[thing, int(weights[row].argmax())]) for row, thing in spoken)
    return Pointed(right, len(spoken))
