"""Pictures and spectrograms below a heatmap: how large they are drawn, and how strong."""

import numpy as np

from clew.drawing.shapes import Photo, Shape

PICTURE, BESIDE, FAINT = 320, 16, 0.45
"""Pixels of a picture's longer side below a map, those between it and the picture itself, and how strong it is there."""
WIDE, TALL, LEAST = 720, 240, 2.0
"""Pixels of a spectrogram, and of its cells at least."""


def sizes_over(backdrop: np.ndarray, rows: int, columns: int) -> tuple[float, float]:
    """Width and height of a cell on a picture, whose longer side is PICTURE pixels; on a spectrogram they fill its room."""
    if backdrop.ndim == 3:
        scale = PICTURE / max(backdrop.shape[:2])
        return scale * backdrop.shape[1] / max(columns, 1), scale * backdrop.shape[0] / max(rows, 1)
    return min(max(WIDE / max(columns, 1), LEAST), 12.0), min(max(TALL / max(rows, 1), LEAST), 12.0)


def below(backdrop: np.ndarray | None, left: float, top: float, width: float, height: float) -> list[Shape]:
    """The picture below the map, faint so that colours stand out, and beside it as it is; a spectrogram, dark where it is loud."""
    if backdrop is None:
        return []
    if backdrop.ndim == 2:
        return [Photo(left, top, width, height, 255 - backdrop, FAINT)]
    grey = np.rint(backdrop @ np.array([0.299, 0.587, 0.114]))
    return [Photo(left, top, width, height, grey, FAINT), Photo(left + width + BESIDE, top, width, height, backdrop)]
