"""Recurrent cells from the papers' equations, for one word and one unit at a time. Weights are stacked by gate, with
each gate's rows together."""

import math

import numpy as np


def sigmoid(a: float) -> float:
    return 1.0 / (1.0 + math.exp(-a))


def relu(a: float) -> float:
    return max(a, 0.0)


def affine(weight: np.ndarray, vector: np.ndarray) -> np.ndarray:
    out = np.zeros(len(weight))
    for i in range(len(weight)):
        for j in range(len(vector)):
            out[i] += weight[i, j] * vector[j]
    return out


def normalised(vector: np.ndarray, gain: np.ndarray, bias: np.ndarray | None = None, eps: float = 1e-5) -> np.ndarray:
    mean = sum(vector) / len(vector)
    variance = sum((v - mean) ** 2 for v in vector) / len(vector)
    out = np.array([g * (v - mean) / math.sqrt(variance + eps) for v, g in zip(vector, gain, strict=True)])
    return out if bias is None else out + bias


def over_time(step, x: np.ndarray, *states: np.ndarray) -> np.ndarray:
    """`step(x_t, *states) -> (y, *states)` over every row of x (batch, length, dim), from zeros."""
    rows = []
    for row in x:
        carried, outputs = tuple(s.copy() for s in states), []
        for x_t in row:
            y, *carried = step(x_t, *carried)
            outputs.append(y)
        rows.append(outputs)
    return np.array(rows)


def elman(p: dict, x: np.ndarray, g=math.tanh) -> np.ndarray:
    """Elman 1990: h' = g(W x + U h + b)."""
    dim = p["hidden_weight"].shape[1]

    def step(x_t, h):
        a = affine(p["input_weight"], x_t) + affine(p["hidden_weight"], h) + p["bias"]
        h = np.array([g(v) for v in a])
        return h, h

    return over_time(step, x, np.zeros(dim))


def lstm(p: dict, x: np.ndarray, peephole: bool = False, layer_norm: bool = False, output=math.tanh) -> np.ndarray:
    """Hochreiter and Schmidhuber 1997 with Gers' forget gate; peepholes by Gers and Schmidhuber 2000; layer norm by Ba
    et al. 2016."""
    dim = p["hidden_weight"].shape[1]

    def step(x_t, h, c):
        from_x, from_h = affine(p["input_weight"], x_t), affine(p["hidden_weight"], h)
        if layer_norm:
            from_x = normalised(from_x, p["input_norm.weight"])
            from_h = normalised(from_h, p["hidden_norm.weight"])
        a = from_x + from_h + p["bias"]
        new_c, gate_o = np.zeros(dim), np.zeros(dim)
        for k in range(dim):
            see = (lambda gate, cell: p["peepholes"][gate, k] * cell) if peephole else (lambda gate, cell: 0.0)  # noqa: B023
            i = sigmoid(a[k] + see(0, c[k]))
            f = sigmoid(a[dim + k] + see(1, c[k]))
            new_c[k] = f * c[k] + i * math.tanh(a[2 * dim + k])
            gate_o[k] = sigmoid(a[3 * dim + k] + see(2, new_c[k]))
        inside = normalised(new_c, p["cell_norm.weight"], p["cell_norm.bias"]) if layer_norm else new_c
        h = np.array([o * output(v) for o, v in zip(gate_o, inside, strict=True)])
        return h, h, new_c

    return over_time(step, x, np.zeros(dim), np.zeros(dim))


def coupled_lstm(p: dict, x: np.ndarray) -> np.ndarray:
    """Greff et al. 2017, CIFG: the input gate is 1 - f."""
    dim = p["hidden_weight"].shape[1]

    def step(x_t, h, c):
        a = affine(p["input_weight"], x_t) + affine(p["hidden_weight"], h) + p["bias"]
        f = np.array([sigmoid(v) for v in a[:dim]])
        candidate = np.array([math.tanh(v) for v in a[dim : 2 * dim]])
        o = np.array([sigmoid(v) for v in a[2 * dim :]])
        c = f * c + (1 - f) * candidate
        h = o * np.tanh(c)
        return h, h, c

    return over_time(step, x, np.zeros(dim), np.zeros(dim))


def projected_lstm(p: dict, x: np.ndarray) -> np.ndarray:
    """Sak et al. 2014: the recurrent state is P (o * tanh(c'))."""
    dim, wide = p["projection"].shape

    def step(x_t, h, c):
        a = affine(p["input_weight"], x_t) + affine(p["hidden_weight"], h) + p["bias"]
        i, f, o = ([sigmoid(v) for v in a[gate * wide : (gate + 1) * wide]] for gate in (0, 1, 3))
        c = np.array([f[k] * c[k] + i[k] * math.tanh(a[2 * wide + k]) for k in range(wide)])
        h = affine(p["projection"], np.array([o[k] * math.tanh(c[k]) for k in range(wide)]))
        return h, h, c

    return over_time(step, x, np.zeros(dim), np.zeros(wide))


def gru(p: dict, x: np.ndarray) -> np.ndarray:
    """cuDNN's form of Cho et al. 2014, with the reset gate after the recurrent matrix:
    n = tanh(W x + b + r (U h + c))."""
    dim = p["hidden_weight"].shape[1]

    def step(x_t, h):
        from_x, from_h = affine(p["input_weight"], x_t) + p["bias"], affine(p["hidden_weight"], h)
        new = np.zeros(dim)
        for k in range(dim):
            r = sigmoid(from_x[k] + from_h[k])
            z = sigmoid(from_x[dim + k] + from_h[dim + k])
            n = math.tanh(from_x[2 * dim + k] + r * (from_h[2 * dim + k] + p["candidate_bias"][k]))
            new[k] = z * h[k] + (1 - z) * n
        return new, new

    return over_time(step, x, np.zeros(dim))


def published_gru(p: dict, x: np.ndarray) -> np.ndarray:
    """Cho et al. 2014, equations 5 to 8, with biases: the reset gate is before the recurrent matrix, n = tanh(W x + b +
    U (r h))."""
    dim = p["hidden_weight"].shape[1]

    def step(x_t, h):
        from_x, from_h = affine(p["input_weight"], x_t) + p["bias"], affine(p["hidden_weight"], h)
        left = np.array([sigmoid(from_x[k] + from_h[k]) * h[k] for k in range(dim)])
        from_left = affine(p["hidden_weight"], left)
        new = np.zeros(dim)
        for k in range(dim):
            z = sigmoid(from_x[dim + k] + from_h[dim + k])
            new[k] = z * h[k] + (1 - z) * math.tanh(from_x[2 * dim + k] + from_left[2 * dim + k])
        return new, new

    return over_time(step, x, np.zeros(dim))


REFERENCES = {
    "elman": elman,
    "lstm": lstm,
    "gru": gru,
    "peephole_lstm": lambda p, x: lstm(p, x, peephole=True),
    "layernorm_lstm": lambda p, x: lstm(p, x, layer_norm=True),
    "coupled_lstm": coupled_lstm,
    "projected_lstm": projected_lstm,
}
