"""How well one cell tells one property, by trying every threshold, a position at a time."""

import numpy as np


def f1(said: np.ndarray, wanted: np.ndarray) -> float:
    hits = sum(1 for a, b in zip(said, wanted, strict=True) if a and b)
    total = sum(map(bool, said)) + sum(map(bool, wanted))
    return 2 * hits / total if total else 0.0


def best_cut(x: np.ndarray, wanted: np.ndarray, thresholds: np.ndarray) -> tuple[float, float, bool]:
    """The best F1, its threshold, and whether the property is told by being above it."""
    tried = [(f1((x >= cut) == above, wanted), cut, above) for cut in thresholds for above in (True, False)]
    return max(tried, key=lambda each: each[0])


def line_r2(x: np.ndarray, y: np.ndarray, held_x: np.ndarray, held_y: np.ndarray) -> float:
    slope, intercept = np.polyfit(x, y, 1)
    errors = held_y - intercept - slope * held_x
    return float(1 - (errors**2).sum() / ((held_y - held_y.mean()) ** 2).sum())
