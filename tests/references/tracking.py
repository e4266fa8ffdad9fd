"""How well one cell predicts one property, by trying every threshold, position by position."""

import numpy as np


def f1(predicted: np.ndarray, expected: np.ndarray) -> float:
    hits = sum(1 for a, b in zip(predicted, expected, strict=True) if a and b)
    total = sum(map(bool, predicted)) + sum(map(bool, expected))
    return 2 * hits / total if total else 0.0


def best_cut(x: np.ndarray, expected: np.ndarray, thresholds: np.ndarray) -> tuple[float, float, bool]:
    """The best F1, its threshold, and whether values above it predict the property."""
    tried = [(f1((x >= cut) == above, expected), cut, above) for cut in thresholds for above in (True, False)]
    return max(tried, key=lambda each: each[0])


def line_r2(x: np.ndarray, y: np.ndarray, held_x: np.ndarray, held_y: np.ndarray) -> float:
    slope, intercept = np.polyfit(x, y, 1)
    errors = held_y - intercept - slope * held_x
    return float(1 - (errors**2).sum() / ((held_y - held_y.mean()) ** 2).sum())
