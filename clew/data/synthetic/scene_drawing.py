"""Draw shapes as pixels in integer arithmetic: a pixel is divided into 4 x 4, and takes a shape's colour in proportion
to how many of these the shape covers."""

from collections.abc import Sequence

import numpy as np

CUT = 4
EIGHTHS = 8
"""Coordinates are in eighths of a pixel: the centres of a pixel's quarters are at 1, 3, 5 and 7."""


def coverage(shape: str, x: int, y: int, radius: int, side: int) -> np.ndarray:
    """Return how many sixteenths of each pixel (side, side) a shape covers. Its centre is the corner (x, y) of four
    pixels."""
    (left, right), (top, bottom) = ((max(0, place - radius), min(side, place + radius)) for place in (x, y))
    across, down = (2 * np.arange(CUT * first, CUT * last) + 1 for first, last in ((left, right), (top, bottom)))
    inside = INSIDE[shape]((across - EIGHTHS * x)[None], (down - EIGHTHS * y)[:, None], EIGHTHS * radius)
    covered = np.zeros((side, side), np.int64)
    covered[top:bottom, left:right] = inside.reshape(bottom - top, CUT, right - left, CUT).sum((1, 3))
    return covered


def paint_layers(
    layers: Sequence[tuple[np.ndarray, tuple[int, int, int]]], side: int, ground: tuple[int, int, int]
) -> np.ndarray:
    """Paint colours over a background, each in proportion to its coverage; return bytes (side, side, 3)."""
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
"""Whether a point is in a shape; `radius` is half of its side."""
