"""Tree-LSTMs from the equations of Tai et al. (2015), for one node and one unit at a time. Weights are stacked by gate:
i, f, candidate, o."""

import math

import numpy as np

from tests.references.cells import affine, sigmoid


def over_trees(p: dict, x: np.ndarray, rows, combine) -> np.ndarray:
    """Every node's h (batch, nodes, dim), 0 on padding; `combine(from_x, children)` returns (h, c), with children as
    (slot, h, c)."""
    dim = len(p["bias"]) // 4
    out = np.zeros((*x.shape[:2], dim))
    for row, tree in enumerate(rows):

        def state(place, row=row, tree=tree):
            below = [(tree.slots[child], *state(child)) for child, parent in enumerate(tree.parents) if parent == place]
            return combine(
                affine(p["input_weight"], x[row, place]) + p["bias"], sorted(below, key=lambda part: part[0])
            )

        for place in range(len(tree.parents)):
            out[row, place] = state(place)[0]
    return out


def child_sum(p: dict, x: np.ndarray, rows) -> np.ndarray:
    dim = p["hidden_weight"].shape[1]

    def combine(from_x, children):
        total = np.zeros(dim)
        for _, hidden, _ in children:
            total = total + hidden
        from_h = affine(p["hidden_weight"], total)
        from_each = [affine(p["hidden_weight"], hidden) for _, hidden, _ in children]
        h, c = np.zeros(dim), np.zeros(dim)
        for j in range(dim):
            i = sigmoid(from_x[j] + from_h[j])
            u = math.tanh(from_x[2 * dim + j] + from_h[2 * dim + j])
            o = sigmoid(from_x[3 * dim + j] + from_h[3 * dim + j])
            c[j] = i * u
            for each, (_, _, cell) in zip(from_each, children, strict=True):
                c[j] += sigmoid(from_x[dim + j] + each[dim + j]) * cell[j]
            h[j] = o * math.tanh(c[j])
        return h, c

    return over_trees(p, x, rows, combine)


def n_ary(p: dict, x: np.ndarray, rows) -> np.ndarray:
    dim = len(p["bias"]) // 4
    num_children = p["hidden_weight"].shape[1] // dim

    def combine(from_x, children):
        def from_children(gate, j):
            row = p["hidden_weight"][gate * dim + j]
            return sum(row[slot * dim + k] * hidden[k] for slot, hidden, _ in children for k in range(dim))

        h, c = np.zeros(dim), np.zeros(dim)
        for j in range(dim):
            i = sigmoid(from_x[j] + from_children(0, j))
            u = math.tanh(from_x[2 * dim + j] + from_children(1 + num_children, j))
            o = sigmoid(from_x[3 * dim + j] + from_children(2 + num_children, j))
            c[j] = i * u
            for slot, _, cell in children:
                c[j] += sigmoid(from_x[dim + j] + from_children(1 + slot, j)) * cell[j]
            h[j] = o * math.tanh(c[j])
        return h, c

    return over_trees(p, x, rows, combine)


REFERENCES = {"child_sum_lstm": child_sum, "n_ary_lstm": n_ary}
