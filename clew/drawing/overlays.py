"""A picture over and over, a small one for each word, bright where the word looks and dark elsewhere (as figures of Xu et al. 2015)."""

import numpy as np

from clew.drawing.letters import shortened, visible
from clew.drawing.parts import Overlays
from clew.drawing.shapes import Box, Label, Photo, Picture, Raster, Shape

SIDE, GAP, MARGIN, BELOW = 112, 10, 4, 22
MOST_IN_A_ROW = 7
LONGEST_NAME = 14
DARKEST = 205
"""Of 255: what lies where a word does not look is still to be seen."""


def over_pixels(weights: np.ndarray, cell: tuple[int, int], size: tuple[int, int], before: int = 0) -> np.ndarray:
    """Weights (rows, columns) of cells of so many pixels down and across, one for each pixel of a picture (height, width). The first cell
    would begin `before` pixels outside, and the last reaches to the end."""
    rows, columns = (
        np.minimum((np.arange(side) + before) // step, most - 1) for side, step, most in zip(size, cell, weights.shape, strict=True)
    )
    return weights[rows[:, None], columns[None, :]]


def darkness(weights: np.ndarray) -> np.ndarray:
    """Levels from 0, where the most weight is, to the darkest, where there is none."""
    most = float(weights.max(initial=0.0))
    return np.rint(DARKEST * (1 - weights / most)) if most > 0 else np.full(weights.shape, float(DARKEST))


def overlays(part: Overlays) -> Picture:
    pixels = np.asarray(part.pixels, dtype=np.uint8)
    height, width = pixels.shape[:2]
    wide, tall = (SIDE * side / max(height, width, 1) for side in (width, height))
    shapes: list[Shape] = []
    for number, name in enumerate(["", *part.names]):
        x = MARGIN + number % MOST_IN_A_ROW * (SIDE + GAP) + (SIDE - wide) / 2
        y = MARGIN + number // MOST_IN_A_ROW * (tall + BELOW + GAP)
        shapes.append(Photo(x, y, wide, tall, pixels))
        about = "the picture"
        if number:
            weights = np.asarray(part.maps[number - 1], dtype=float)
            shapes.append(Raster(x, y, wide, tall, darkness(over_pixels(weights, part.cell, (height, width), part.before)), "shade"))
            row, column = np.unravel_index(int(weights.argmax()), weights.shape)
            about = f"{visible(name)}: {100 * weights.max():.0f} % at row {row + 1}, column {column + 1}"
            shapes.append(Label(x + wide / 2, y + tall + 16, shortened(visible(name), LONGEST_NAME), "word-middle"))
        shapes.append(Box(x, y, wide, tall, "thumb", about))
    count = len(part.names) + 1
    across, down = min(count, MOST_IN_A_ROW), -(-count // MOST_IN_A_ROW)
    about = f"{part.title or 'attention over a picture'}: {len(part.names)} words"
    return Picture(2 * MARGIN + across * (SIDE + GAP) - GAP, MARGIN + down * (tall + BELOW + GAP), shapes, about)
