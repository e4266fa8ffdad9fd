"""Pointing with loops: the cell of each pixel, by fractions of the picture's side."""

import math
from fractions import Fraction

import numpy as np


def touched(
    numbers: np.ndarray, thing: int, cell: tuple[int, int], size: tuple[int, int], before: int = 0
) -> set[tuple[int, int]]:
    """Rows and columns, counted from 1, of the cells that contain the centre of a pixel of the thing, after resizing
    the picture to `size`. Cells start `before` pixels outside; pixels after the last cell belong to it."""
    height, width = numbers.shape
    cells = set()
    for y in range(height):
        for x in range(width):
            if numbers[y, x] == thing:
                down, across = Fraction(2 * y + 1, 2 * height) * size[0], Fraction(2 * x + 1, 2 * width) * size[1]
                row, column = math.floor((down + before) / cell[0]), math.floor((across + before) / cell[1])
                cells.add((min(row, math.ceil(size[0] / cell[0]) - 1), min(column, math.ceil(size[1] / cell[1]) - 1)))
    return cells


def pointed(
    weights: np.ndarray,
    things: tuple[int | None, ...],
    numbers: np.ndarray,
    cell: tuple[int, int],
    size: tuple[int, int],
    before: int = 0,
) -> tuple[int, int]:
    """The number of words with the largest weight on their thing, counted from 0, and the number of words that have
    one. Of equal weights the first counts."""
    right = words = 0
    columns = -(-size[1] // cell[1])
    for row, thing in zip(weights, things, strict=False):
        if thing is None:
            continue
        words += 1
        best = 0
        for place in range(1, len(row)):
            if row[place] > row[best]:
                best = place
        right += (best // columns, best % columns) in touched(numbers, thing + 1, cell, size, before)
    return right, words
