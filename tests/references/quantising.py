"""Matrices in 8 and 4 bits, entry by entry in float64, and products with x rounded to 8 bits."""

import numpy as np


def int8_rows(weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Q and s of W_nk ~ s_n Q_nk."""
    codes, scales = np.zeros(weight.shape), np.zeros(len(weight))
    for n, row in enumerate(weight):
        scales[n] = max(abs(entry) for entry in row) / 127
        for k, entry in enumerate(row):
            codes[n, k] = np.round(entry / scales[n]) if scales[n] else 0
    return codes, scales


def int4_groups(weight: np.ndarray, size: int = 32) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """C, M and s of W_nk ~ s_n M_ng C_nk: of the multipliers m, -m, m - 1 and 1 - m of a group, the first with the
    smallest error."""
    rows, columns = weight.shape
    codes, multipliers, scales = np.zeros(weight.shape), np.zeros((rows, columns // size)), np.zeros(rows)
    for n, row in enumerate(weight):
        scales[n] = max(abs(entry) for entry in row) / 120
        step = scales[n] or 1.0
        for g in range(columns // size):
            part = row[g * size : (g + 1) * size]
            most = min(max(int(np.ceil(max(abs(part)) / (8 * step))), 1), 15)
            least = np.inf
            for m in (most, -most, max(most - 1, 1), -max(most - 1, 1)):
                rounded = np.clip(np.round(part / (m * step)), -8, 7)
                error = sum((rounded * m * step - part) ** 2)
                if error < least:
                    least, multipliers[n, g], codes[n, g * size : (g + 1) * size] = error, m, rounded
    return codes, multipliers, scales


def rounded_rows(x: np.ndarray) -> np.ndarray:
    """r round(x / r),  r = max |x| / 127, row by row."""
    codes, scales = int8_rows(x)
    return codes * scales[:, None]
