"""A pyramidal BiLSTM (Chan et al. 2016), position by position."""

import numpy as np

from tests.references.cells import lstm


def pairs(row: np.ndarray) -> np.ndarray:
    """Every two positions of a row concatenated; the last of an odd row with zeros."""
    joined = []
    for i in range(0, len(row), 2):
        second = row[i + 1] if i + 1 < len(row) else np.zeros(row.shape[1])
        joined.append(np.concatenate([row[i], second]))
    return np.array(joined)


def pyramidal_bilstm(ahead: dict, back: dict, row: np.ndarray) -> np.ndarray:
    """h_i = [forward_i; backward_i] over the pairs of one row (length, dim)."""
    joined = pairs(row)[None]
    return np.concatenate([lstm(ahead, joined)[0], lstm(back, joined[:, ::-1])[0, ::-1]], axis=-1)
