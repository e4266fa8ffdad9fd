"""Word vectors from letters as in the papers, for one word, filter and letter at a time."""

import math

import numpy as np

from tests.references.cells import affine, lstm, relu, sigmoid


def over_words(p: dict, letters: np.ndarray, dim: int, read) -> np.ndarray:
    """`read` computes a word's vector from those of its letters; a word without letters is zeros."""
    out = np.zeros((*letters.shape[:2], dim))
    for place in np.ndindex(*letters.shape[:2]):
        ids = [i for i in letters[place] if i]
        if ids:
            out[place] = read(np.array([p["letters.weight"][i] for i in ids]))
    return out


def cnn(p: dict, letters: np.ndarray, dim: int, widths: list[int], highways: int, activation=relu) -> np.ndarray:
    """Ma and Hovy 2016, Kim et al. 2016: filters over letters and the maximum of each, then
    t relu(W y + b) + (1 - t) y."""

    def read(x):
        y = []
        for place, width in enumerate(widths):
            weight, bias = p[f"convolutions.{place}.weight"], p[f"convolutions.{place}.bias"]
            for k in range(len(bias)):
                values = []
                for t in range(len(x)):
                    value = bias[k]
                    for j in range(min(width, len(x) - t)):
                        value += sum(weight[k, :, j] * x[t + j])
                    values.append(value)
                y.append(activation(max(values)))
        y = np.array(y)
        for layer in range(highways):
            name = f"highways.{layer}"
            t = [sigmoid(v) for v in affine(p[f"{name}.transform.weight"], y) + p[f"{name}.transform.bias"]]
            new = [relu(v) for v in affine(p[f"{name}.layer.linear.weight"], y) + p[f"{name}.layer.linear.bias"]]
            y = np.array([a * n + (1 - a) * o for a, n, o in zip(t, new, y, strict=True)])
        return affine(p["projection.weight"], y) + p["projection.bias"] if "projection.weight" in p else y

    return over_words(p, letters, dim, read)


def bilstm(p: dict, letters: np.ndarray, dim: int) -> np.ndarray:
    """Lample et al. 2016: the last state of a forward reader concatenated with that of a backward reader."""

    def weights(direction):
        start = f"reader.{direction}_layer.cell."
        return {name.removeprefix(start): value for name, value in p.items() if name.startswith(start)}

    def read(x):
        ahead, back = lstm(weights("forward"), x[None]), lstm(weights("backward"), x[None, ::-1])
        return np.concatenate([ahead[0, -1], back[0, -1]])

    return over_words(p, letters, dim, read)


CASES = {
    "ma and hovy": ("cnn", {"letter_dim": 3}, lambda p, x: cnn(p, x, 4, [3], 0)),
    "kim": (
        "cnn",
        {"letter_dim": 2, "widths": [1, 2, 5], "filters": [1, 2, 3], "highways": 2, "activation": "tanh"},
        lambda p, x: cnn(p, x, 4, [1, 2, 5], 2, math.tanh),
    ),
    "lample": ("lstm", {"letter_dim": 3}, lambda p, x: bilstm(p, x, 4)),
}
