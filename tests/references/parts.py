"""Convolution, the position-wise network, norms, connections and poolings, for one position and feature at a time."""

import math

import numpy as np

from tests.references.attention import softmax
from tests.references.cells import affine, normalised, sigmoid


def convolution(p: dict, x: np.ndarray, causal: bool) -> np.ndarray:
    dim, _, width = p["weight"].shape
    first = -(width - 1) if causal else -(width // 2)
    out = np.zeros((*x.shape[:2], dim))
    for b, t, o in np.ndindex(out.shape):
        out[b, t, o] = p["bias"][o]
        for tap in range(width):
            if 0 <= t + first + tap < x.shape[1]:
                out[b, t, o] += sum(p["weight"][o, :, tap] * x[b, t + first + tap])
    return out


def gelu(a: float) -> float:
    return a * 0.5 * (1 + math.erf(a / math.sqrt(2)))


def gelu_tanh(a: float) -> float:
    return 0.5 * a * (1 + math.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a**3)))


ACTIVATIONS = {
    "relu": lambda a: max(a, 0.0),
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "silu": lambda a: a * sigmoid(a),
    "tanh": math.tanh,
}


def feedforward(p: dict, x: np.ndarray, activation: str) -> np.ndarray:
    out = np.zeros_like(x)
    for place in np.ndindex(x.shape[:2]):
        inner = affine(p["inner.weight"], x[place]) + p["inner.bias"]
        if activation == "swiglu":
            gate = affine(p["gate.weight"], x[place]) + p["gate.bias"]
            hidden = np.array([a * sigmoid(a) * g for a, g in zip(inner, gate, strict=True)])
        else:
            hidden = np.array([ACTIVATIONS[activation](a) for a in inner])
        out[place] = affine(p["outer.weight"], hidden) + p["outer.bias"]
    return out


def layer_norm(p: dict, x: np.ndarray) -> np.ndarray:
    out = np.zeros_like(x)
    for place in np.ndindex(x.shape[:2]):
        out[place] = normalised(x[place], p["weight"], p["bias"])
    return out


def rms_norm(p: dict, x: np.ndarray) -> np.ndarray:
    out = np.zeros_like(x)
    for place in np.ndindex(x.shape[:2]):
        root = math.sqrt(sum(v * v for v in x[place]) / x.shape[-1] + 1e-5)
        out[place] = [g * v / root for v, g in zip(x[place], p["weight"], strict=True)]
    return out


NORMS = {"layer": layer_norm, "rms": rms_norm, "none": lambda p, x: x}


def wiring(name: str, p: dict, x: np.ndarray, inner) -> np.ndarray:
    """Connect `inner(parameters, x)` with x."""
    of_layer = {key.removeprefix("layer."): value for key, value in p.items() if key.startswith("layer.")}
    of_norm = {key.removeprefix("norm."): value for key, value in p.items() if key.startswith("norm.")}

    def f(inputs):
        return inner(of_layer, inputs)

    if name == "plain":
        return f(x)
    if name == "residual":
        return x + f(x)
    if name == "pre_norm":
        return x + f(layer_norm(of_norm, x))
    if name == "post_norm":
        return layer_norm(of_norm, x + f(x))
    if name == "dense":
        return np.concatenate([x, f(x)], -1)
    y, out = f(x), np.zeros_like(x)
    for place in np.ndindex(x.shape[:2]):
        t = np.array([sigmoid(a) for a in affine(p["transform.weight"], x[place]) + p["transform.bias"]])
        out[place] = t * y[place] + (1 - t) * x[place]
    return out


def pooled(name: str, p: dict, rows: list[np.ndarray]) -> np.ndarray:
    """One vector per row of real positions (length, dim)."""
    out = []
    for row in rows:
        if name == "first":
            out.append(row[0])
        elif name == "last":
            out.append(row[-1])
        elif name == "mean":
            out.append(sum(row) / len(row))
        elif name == "max":
            out.append(np.array([max(row[:, k]) for k in range(row.shape[1])]))
        elif name == "pooler":
            out.append(np.tanh(affine(p["dense.weight"], row[0]) + p["dense.bias"]))
        else:
            scores = [
                float(p["vector.weight"][0] @ np.tanh(affine(p["inner.weight"], h) + p["inner.bias"])) for h in row
            ]
            out.append(sum(w * h for w, h in zip(softmax(scores), row, strict=True)))
    return np.array(out)


def layer_mix(p: dict, *levels: np.ndarray) -> np.ndarray:
    """Peters et al. 2018, equation 1."""
    return p["gamma"] * sum(w * level for w, level in zip(softmax(list(p["scalars"])), levels, strict=True))


def bahdanau(p: dict, x: np.ndarray, memory: list[np.ndarray], score, cell_step, hidden: np.ndarray) -> np.ndarray:
    """Bahdanau et al. 2015: attend with the previous state, feed [x; context], return [s'; context].
    One memory per row."""
    rows = []
    for row, places in zip(x, memory, strict=True):
        state, outputs = hidden.copy(), []
        for x_t in row:
            weights = softmax([score(state, h) for h in places])
            context = sum(w * h for w, h in zip(weights, places, strict=True))
            state = cell_step(np.concatenate([x_t, context]), state)
            outputs.append(np.concatenate([state, context]))
        rows.append(outputs)
    return np.array(rows)


def luong(
    p: dict, x: np.ndarray, memory: list[np.ndarray], score, cell_step, hidden: np.ndarray, fed_dim: int
) -> np.ndarray:
    """Luong et al. 2015 with input feeding: feed [x; h~], attend with the new state, return
    h~ = tanh(W_c [context; s]). One memory per row."""
    rows = []
    for row, places in zip(x, memory, strict=True):
        state, fed, outputs = hidden.copy(), np.zeros(fed_dim), []
        for x_t in row:
            state = cell_step(np.concatenate([x_t, fed]), state)
            fed = attentional(p["join.weight"], state, places, score)
            outputs.append(fed)
        rows.append(outputs)
    return np.array(rows)


def attentional(weight: np.ndarray, state: np.ndarray, places: np.ndarray, score) -> np.ndarray:
    """Luong et al. 2015, equation 5."""
    weights = softmax([score(state, h, j) for j, h in enumerate(places)])
    context = sum(w * h for w, h in zip(weights, places, strict=True))
    return np.tanh(affine(weight, np.concatenate([context, state])))


def unjoined(x: np.ndarray, memory: list[np.ndarray], score, cell_step, hidden: np.ndarray, fed: bool) -> np.ndarray:
    """Attention after the cell without a joining layer: s' = cell([x; previous context], s) if the context is `fed`,
    else cell(x, s); then attend with s' and return [s'; context]. One memory per row."""
    rows = []
    for row, places in zip(x, memory, strict=True):
        state, context, outputs = hidden.copy(), np.zeros(places.shape[1]), []
        for x_t in row:
            state = cell_step(np.concatenate([x_t, context]) if fed else x_t, state)
            weights = softmax([score(state, h, j) for j, h in enumerate(places)])
            context = sum(w * h for w, h in zip(weights, places, strict=True))
            outputs.append(np.concatenate([state, context]))
        rows.append(outputs)
    return np.array(rows)


def residual_step(
    cell_steps: list, x_t: np.ndarray, states: list[np.ndarray], beside: np.ndarray | None = None
) -> list[np.ndarray]:
    """One step of a stack, Wu et al. 2016, equation 6: x^1 = cell_1(x), x^k = cell_k([x^{k-1}; beside]) + x^{k-1}.
    Returns the new states of all cells, which are their outputs, and then x of the top."""
    new = [cell_steps[0](x_t, states[0])]
    passed = new[0]
    for step, state in zip(cell_steps[1:], states[1:], strict=True):
        new.append(step(passed if beside is None else np.concatenate([passed, beside]), state))
        passed = new[-1] + passed
    return [*new, passed]


def readout(p: dict, x: np.ndarray, kind: str) -> np.ndarray:
    rows = []
    for place in np.ndindex(x.shape[:2]):
        t = affine(p["linear.weight"], x[place]) + p["linear.bias"]
        rows.append([math.tanh(v) for v in t] if kind == "tanh" else [max(t[k], t[k + 1]) for k in range(0, len(t), 2)])
    return np.array(rows).reshape(*x.shape[:2], -1)


def gated_convolution(p: dict, x: np.ndarray, causal: bool) -> np.ndarray:
    """Gehring et al. 2017: the gated window plus the input, times sqrt(1/2)."""
    return math.sqrt(0.5) * (x + gated_window(p, x, causal))


def gated_window(p: dict, x: np.ndarray, causal: bool) -> np.ndarray:
    of_convolution = {
        key.removeprefix("convolution."): value for key, value in p.items() if key.startswith("convolution.")
    }
    gated = convolution(of_convolution, x, causal)
    dim = gated.shape[-1] // 2
    out = np.zeros((*x.shape[:2], dim))
    for b, t, k in np.ndindex(out.shape):
        out[b, t, k] = gated[b, t, k] * sigmoid(gated[b, t, dim + k])
    return out


def looking_convolution(p: dict, x: np.ndarray, memory: list[np.ndarray], dim: int) -> np.ndarray:
    """Gehring et al. 2017, sections 3.3 and 3.4; x is [h; g], and each place of a row's memory is [z; z + e]."""
    h, g = x[..., :dim], x[..., dim:]
    a = gated_window(p, h, causal=True)
    out = np.zeros_like(x)
    for b, t in np.ndindex(x.shape[:2]):
        d = math.sqrt(0.5) * (affine(p["query.weight"], a[b, t]) + p["query.bias"] + g[b, t])
        keys, values = np.split(memory[b], 2, -1)
        weights = softmax([sum(d * z) for z in keys])
        context = math.sqrt(len(keys)) * sum(w * v for w, v in zip(weights, values, strict=True))
        attended = math.sqrt(0.5) * (a[b, t] + affine(p["output.weight"], context) + p["output.bias"])
        out[b, t] = np.concatenate([math.sqrt(0.5) * (h[b, t] + attended), g[b, t]])
    return out
