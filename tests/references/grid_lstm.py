"""Recurrences over grids from their equations, for one cell and one unit at a time, each example alone and within its
own size.

Weights are stacked by gate. LSTM (Graves et al. 2007): i, f of the cell above, f of the cell to the left, candidate,
o. Spatial GRU (Wan et al. 2016): three resets, four updates, candidate; neighbours are in the order above, left,
corner.
"""

import math

import numpy as np

from tests.references.cells import affine, sigmoid

CORNERS = {"top_left": (1, 1), "bottom_right": (-1, -1), "top_right": (1, -1), "bottom_left": (-1, 1)}
"""The directions in which rows and columns are read."""


def lstm_cell(p: dict, x: np.ndarray, up, left, corner):
    dim = len(p["bias"]) // 5
    zeros = np.zeros(dim)
    (h_up, c_up), (h_left, c_left) = (neighbour or (zeros, zeros) for neighbour in (up, left))
    a = affine(p["input_weight"], x) + p["bias"] + affine(p["hidden_weight"], np.concatenate([h_up, h_left]))
    h, c = np.zeros(dim), np.zeros(dim)
    for k in range(dim):
        i, f_up, f_left, candidate, o = (a[gate * dim + k] for gate in range(5))
        c[k] = sigmoid(i) * math.tanh(candidate) + sigmoid(f_up) * c_up[k] + sigmoid(f_left) * c_left[k]
        h[k] = sigmoid(o) * math.tanh(c[k])
    return h, c


def gru_cell(p: dict, x: np.ndarray, up, left, corner):
    dim = len(p["bias"]) // 8
    hidden = np.concatenate([np.zeros(dim) if neighbour is None else neighbour[0] for neighbour in (up, left, corner)])
    from_x = affine(p["input_weight"], x) + p["bias"]
    a = from_x[: 7 * dim] + affine(p["hidden_weight"], hidden)
    reset = np.array([sigmoid(value) for value in a[: 3 * dim]])
    from_neighbours = affine(p["candidate_weight"], reset * hidden)
    h = np.zeros(dim)
    for k in range(dim):
        powers = [math.exp(a[(3 + part) * dim + k]) for part in range(4)]
        values = [hidden[k], hidden[dim + k], hidden[2 * dim + k], math.tanh(from_x[7 * dim + k] + from_neighbours[k])]
        h[k] = sum(power * value for power, value in zip(powers, values, strict=True)) / sum(powers)
    return (h,)


CELLS = {"grid_lstm": lstm_cell, "grid_gru": gru_cell}


def grid(name: str, p: dict, x: np.ndarray, sizes) -> np.ndarray:
    """h of every cell (batch, height, width, corners * dim), 0 on padding; `sizes` are each example's (height,
    width)."""
    corners = [corner for corner in CORNERS if f"cells.{corner}.bias" in p]
    whole = []
    for corner in corners:
        own = {
            key.removeprefix(f"cells.{corner}."): value
            for key, value in p.items()
            if key.startswith(f"cells.{corner}.")
        }
        down, right = CORNERS[corner]
        dim = own["hidden_weight"].shape[1] // {"grid_lstm": 2, "grid_gru": 3}[name]
        out = np.zeros((*x.shape[:3], dim))
        for row, (height, width) in enumerate(sizes):
            states: dict = {}
            for i in range(height)[::down]:
                for j in range(width)[::right]:
                    neighbours = [states.get(place) for place in ((i - down, j), (i, j - right), (i - down, j - right))]
                    states[i, j] = CELLS[name](own, x[row, i, j], *neighbours)
                    out[row, i, j] = states[i, j][0]
        whole.append(out)
    return np.concatenate(whole, -1)
