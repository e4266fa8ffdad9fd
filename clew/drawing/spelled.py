"""An input and the text written from it: the input's picture, such as a spectrogram, and below it, at the same width,
each letter's place."""

import numpy as np

from clew.drawing.heatmap import colour_range, strengths
from clew.drawing.letters import shortened_name, text_width, visible
from clew.drawing.parts import Spelled
from clew.drawing.scales import labels, ticks
from clew.drawing.shapes import Label, Picture, Raster, Shape, Stroke

MARGIN, GAP, BETWEEN = 4, 7, 10
NARROWEST, WIDEST = 480.0, 1100.0
TALLEST = 130.0
"""The height of an input's picture, in pixels."""
ROW = 14.0
"""The height of a letter's row, in pixels."""
SPACE = "·"
"""The sign for invisible letters."""
LONGEST_NAME = 16


def spelled(part: Spelled) -> Picture:
    shown, weights = (np.atleast_2d(np.asarray(values, dtype=float)) for values in (part.shown, part.weights))
    names = [shortened_name(visible(letter) if letter.strip() else SPACE, LONGEST_NAME) for letter in part.letters]
    left = MARGIN + max([text_width(name, 13) for name in names] + [text_width(part.name, 12)], default=0) + GAP
    width = float(np.clip(6 * weights.shape[1], NARROWEST, WIDEST))
    below = MARGIN + TALLEST + BETWEEN
    height = ROW * len(names)
    shapes: list[Shape] = [
        Raster(left, MARGIN, width, TALLEST, levels(shown), "cold"),
        *frame(left, MARGIN, width, TALLEST),
        Label(left - GAP, MARGIN + 12, part.name, "tick-end"),
    ]
    if weights.size:
        shapes.append(Raster(left, below, width, height, levels(np.clip(weights, 0, None), low=0.0), "heat"))
    shapes += frame(left, below, width, height)
    shapes += [Label(left - GAP, below + (row + 0.5) * ROW + 4.5, name, "word-end") for row, name in enumerate(names)]
    shapes += axis(part, left, below + height, width)
    return Picture(left + width + MARGIN + 20, below + height + 40, shapes, f"{part.title}: {' '.join(names)}")


def levels(values: np.ndarray, low: float | None = None) -> np.ndarray:
    """Levels from 0 to 255, between the minimum, or `low`, and the maximum."""
    return np.rint(255 * strengths(values, *colour_range(values, low, None, False), False))


def frame(left: float, top: float, width: float, height: float) -> list[Shape]:
    right, bottom = left + width, top + height
    return [Stroke([(left, top), (right, top), (right, bottom), (left, bottom), (left, top)], "frame")]


def axis(part: Spelled, left: float, y: float, width: float) -> list[Shape]:
    """The axis along the input, in its unit."""
    values = [value for value in ticks(0, part.length, 8) if 0 <= value <= part.length]
    shapes: list[Shape] = []
    for value, text in zip(values, labels(values), strict=True):
        x = left + width * value / part.length
        shapes += [Stroke([(x, y), (x, y + 4)], "axis"), Label(x, y + 17, text, "tick")]
    return [*shapes, Label(left + width / 2, y + 34, part.unit, "label")]
