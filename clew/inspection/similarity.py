"""Similarity of layers, models and attention heads: pure functions of their vectors and weights."""

import numpy as np

from clew.core.errors import UserError

Array = np.ndarray


def linear_cka(x: Array, y: Array) -> float:
    """Centred kernel alignment with linear kernels (Kornblith et al. 2019, equation 4 and section 3).

        CKA(X, Y) = |Y^T X|^2 / (|X^T X| |Y^T Y|)        Frobenius norms, columns centred, one row per example

    1 if one is a rotation and scaling of the other, 0 if no direction of one correlates with any of the other; widths
    may differ.
    """
    if len(x) != len(y):
        raise UserError(f"CKA compares vectors of the same words, row by row, but there are {len(x)} and {len(y)}")
    x, y = (np.asarray(part, dtype=np.float64) - np.asarray(part, dtype=np.float64).mean(0) for part in (x, y))
    scale = float(np.linalg.norm(x.T @ x) * np.linalg.norm(y.T @ y))
    return float(np.linalg.norm(y.T @ x) ** 2) / scale if scale > 0 else 0.0


def cka_matrix(first: list[Array], second: list[Array]) -> Array:
    """Compare every level of one model (rows) with every level of another, or of itself (columns)."""
    return np.array([[linear_cka(x, y) for y in second] for x in first])


def entropy(p: Array) -> Array:
    """Return -sum p log p over the last axis, with 0 log 0 = 0."""
    return -(p * np.log(np.where(p > 0, p, 1.0))).sum(-1)


def head_divergences(weights: Array) -> Array:
    """Jensen-Shannon divergence (Lin 1991) between the attention of two heads (heads, heads), from 0 to log 2.

        JS(p, q) = H((p + q) / 2) - (H(p) + H(q)) / 2

    Averaged over queries, where Clark et al. (2019) sum. Weights are (heads, queries, keys), and each row sums to one.
    """
    weights = np.asarray(weights, dtype=np.float64)
    entropies = entropy(weights)  # (heads, queries)
    divergences = np.zeros((len(weights), len(weights)))
    for row in range(len(weights)):
        mixed = entropy((weights[row] + weights[row + 1 :]) / 2)
        divergences[row, row + 1 :] = (mixed - (entropies[row] + entropies[row + 1 :]) / 2).mean(-1)
    return np.maximum(divergences + divergences.T, 0.0)


def classical_scaling(distances: Array, num: int = 2) -> Array:
    """Classical multidimensional scaling (Torgerson 1952): points (points, num) whose distances approximate the given
    ones.

        B = -1/2 J D^2 J,   J = I - 1/n        points = V_num sqrt(L_num)  of  B = V L V^T

    Signs make the largest entry of each direction positive.
    """
    distances = np.asarray(distances, dtype=np.float64)
    count = len(distances)
    centring = np.eye(count) - 1 / count
    values, vectors = np.linalg.eigh(-0.5 * centring @ distances**2 @ centring)
    order = np.argsort(-values)[:num]
    vectors = vectors[:, order]
    signs = np.sign(vectors[np.abs(vectors).argmax(0), np.arange(vectors.shape[1])])
    points = vectors * np.where(signs == 0, 1.0, signs) * np.sqrt(np.maximum(values[order], 0.0))
    return np.pad(points, ((0, 0), (0, max(num - points.shape[1], 0))))
