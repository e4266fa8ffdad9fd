"""Pictures and spectrograms below a heatmap: their size and their strength."""

import numpy as np

from clew.drawing.shapes import Photo, Shape

PICTURE, BESIDE, FAINT = 320, 16, 0.45
"""The longer side, in pixels, of a picture below a map; the gap to the full picture beside it; and the opacity below
the map."""
WIDE, TALL, LEAST = 720, 240, 2.0
"""The width and height of a spectrogram, and the smallest side of its cells, in pixels."""


def sizes_over(backdrop: np.ndarray, rows: int, columns: int) -> tuple[float, float]:
    """The width and height of a cell: on a picture, whose longer side is PICTURE pixels, or on a spectrogram, which
    fills its area."""
    if backdrop.ndim == 3:
        scale = PICTURE / max(backdrop.shape[:2])
        return scale * backdrop.shape[1] / max(columns, 1), scale * backdrop.shape[0] / max(rows, 1)
    return min(max(WIDE / max(columns, 1), LEAST), 12.0), min(max(TALL / max(rows, 1), LEAST), 12.0)


def draw_below(backdrop: np.ndarray | None, left: float, top: float, width: float, height: float) -> list[Shape]:
    """The picture below the map, faint so that colours stand out, and again beside it, unchanged; or a spectrogram,
    dark where it is loud."""
    if backdrop is None:
        return []
    if backdrop.ndim == 2:
        return [Photo(left, top, width, height, 255 - backdrop, FAINT)]
    grey = np.rint(backdrop @ np.array([0.299, 0.587, 0.114]))
    return [Photo(left, top, width, height, grey, FAINT), Photo(left + width + BESIDE, top, width, height, backdrop)]
