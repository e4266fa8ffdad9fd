"""How alike layers, models and attention heads are: pure functions of their vectors and weights."""

import numpy as np

from clew.core.errors import UserError

Array = np.ndarray


def linear_cka(x: Array, y: Array) -> float:
    """Centred kernel alignment with linear kernels (Kornblith et al. 2019, equation 4 and section 3).

        CKA(X, Y) = |Y^T X|^2 / (|X^T X| |Y^T Y|)        Frobenius norms, columns centred, a row an example

    1 where one is the other turned and scaled, 0 where no direction of one goes with any of the other; widths may differ.
    """
    if len(x) != len(y):
        raise UserError(f"CKA compares vectors of the same words, row by row, and there are {len(x)} and {len(y)}")
    x, y = (np.asarray(part, dtype=np.float64) - np.asarray(part, dtype=np.float64).mean(0) for part in (x, y))
    scale = float(np.linalg.norm(x.T @ x) * np.linalg.norm(y.T @ y))
    return float(np.linalg.norm(y.T @ x) ** 2) / scale if scale > 0 else 0.0


def cka_matrix(first: list[Array], second: list[Array]) -> Array:
    """Every level of one model (rows) with every level of another, or of itself (columns)."""
    return np.array([[linear_cka(x, y) for y in second] for x in first])


def entropy(p: Array) -> Array:
    """-sum p log p over the last axis, 0 log 0 being 0."""
    return -(p * np.log(np.where(p > 0, p, 1.0))).sum(-1)


def head_divergences(weights: Array) -> Array:
    """(heads, heads): the Jensen-Shannon divergence (Lin 1991) of what two heads look at, the mean over queries, as in Clark et al. (2019),
    who sum: from 0 to log 2.

        JS(p, q) = H((p + q) / 2) - (H(p) + H(q)) / 2

    Weights are (heads, queries, keys), each row adding up to one.
    """
    weights = np.asarray(weights, dtype=np.float64)
    entropies = entropy(weights)  # (heads, queries)
    found = np.zeros((len(weights), len(weights)))
    for row in range(len(weights)):
        mixed = entropy((weights[row] + weights[row + 1 :]) / 2)
        found[row, row + 1 :] = (mixed - (entropies[row] + entropies[row + 1 :]) / 2).mean(-1)
    return np.maximum(found + found.T, 0.0)


def classical_scaling(distances: Array, num: int = 2) -> Array:
    """Points (points, num) whose distances are those given as nearly as so many axes allow (Torgerson 1952).

        B = -1/2 J D^2 J,   J = I - 1/n        points = V_num sqrt(L_num)  of  B = V L V^T

    A direction's sign is that which makes its largest entry positive.
    """
    distances = np.asarray(distances, dtype=np.float64)
    count = len(distances)
    centring = np.eye(count) - 1 / count
    values, vectors = np.linalg.eigh(-0.5 * centring @ distances**2 @ centring)
    order = np.argsort(-values)[:num]
    vectors = vectors[:, order]
    signs = np.sign(vectors[np.abs(vectors).argmax(0), np.arange(vectors.shape[1])])
    found = vectors * np.where(signs == 0, 1.0, signs) * np.sqrt(np.maximum(values[order], 0.0))
    return np.pad(found, ((0, 0), (0, max(num - found.shape[1], 0))))
