"""Shapes as pixels, in whole numbers: a pixel is cut into 4 x 4, and how many of these a shape covers is how much of
its colour it has."""

from collections.abc import Sequence

import numpy as np

CUT = 4
EIGHTHS = 8
"""Coordinates are in eighths of a pixel: the middles of a pixel's quarters are at 1, 3, 5 and 7."""


def coverage(shape: str, x: int, y: int, radius: int, side: int) -> np.ndarray:
    """How many sixteenths of each pixel (side, side) a shape covers whose centre is the corner (x, y) of four
    pixels."""
    (left, right), (top, bottom) = ((max(0, place - radius), min(side, place + radius)) for place in (x, y))
    across, down = (2 * np.arange(CUT * first, CUT * last) + 1 for first, last in ((left, right), (top, bottom)))
    inside = INSIDE[shape]((across - EIGHTHS * x)[None], (down - EIGHTHS * y)[:, None], EIGHTHS * radius)
    covered = np.zeros((side, side), np.int64)
    covered[top:bottom, left:right] = inside.reshape(bottom - top, CUT, right - left, CUT).sum((1, 3))
    return covered


def painted(
    layers: Sequence[tuple[np.ndarray, tuple[int, int, int]]], side: int, ground: tuple[int, int, int]
) -> np.ndarray:
    """Colours laid over a ground, each as far as it covers; bytes (side, side, 3)."""
    canvas = np.tile(np.array(ground, np.int64), (side, side, 1))
    for covered, colour in layers:
        share = covered[..., None]
        canvas = (canvas * (CUT * CUT - share) + np.array(colour) * share + CUT * CUT // 2) // (CUT * CUT)
    return canvas.astype(np.uint8)


INSIDE = {
    "circle": lambda across, down, radius: across**2 + down**2 <= radius**2,
    "square": lambda across, down, radius: 8 * np.maximum(abs(across), abs(down)) <= 7 * radius,
    "triangle": lambda across, down, radius: (down <= radius) & (2 * abs(across) <= down + radius),
    "diamond": lambda across, down, radius: abs(across) + abs(down) <= radius,
    "cross": lambda across, down, radius: (
        (3 * np.minimum(abs(across), abs(down)) <= radius) & (np.maximum(abs(across), abs(down)) <= radius)
    ),
}
"""Whether a point is in a shape, `radius` being half of its side."""
