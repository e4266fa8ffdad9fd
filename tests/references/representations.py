"""Contextuality, CKA, divergences and lexicon induction with loops in float64; the library's closed forms must equal
them."""

import math

import numpy as np


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def self_similarity(rows):
    """Ethayarajh (2019), definition 1."""
    n = len(rows)
    return sum(cosine(rows[j], rows[k]) for j in range(n) for k in range(n) if j != k) / (n * n - n)


def intra_sentence_similarity(rows):
    """Definition 2."""
    mean = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    return sum(cosine(mean, row) for row in rows) / len(rows)


def explainable_variance(rows):
    """Definition 3, by the eigenvalues of the matrix of products."""
    values = np.linalg.eigvalsh(np.asarray(rows) @ np.asarray(rows).T)
    return values[-1] / values.sum()


def cka(x, y):
    """Kornblith et al. (2019) in its kernel form: HSIC(K, L) / sqrt(HSIC(K, K) HSIC(L, L))."""
    n = len(x)
    centring = np.eye(n) - np.ones((n, n)) / n

    def hsic(k, l):  # noqa: E741
        return np.trace(k @ centring @ l @ centring) / (n - 1) ** 2

    k, l = x @ x.T, y @ y.T  # noqa: E741
    return hsic(k, l) / math.sqrt(hsic(k, k) * hsic(l, l))


def jensen_shannon(p, q):
    """The mean of the two divergences from the mean distribution, term by term."""
    total = 0.0
    for a, b in zip(p, q, strict=True):
        m = (a + b) / 2
        total += 0.5 * (a * math.log(a / m) if a > 0 else 0) + 0.5 * (b * math.log(b / m) if b > 0 else 0)
    return total


def csls(x, y, k):
    """Conneau et al. (2018), equation of CSLS, pair by pair."""
    cosines = np.array([[cosine(a, b) for b in y] for a in x])
    to_targets = [np.mean(sorted(row)[-k:]) for row in cosines]
    to_sources = [np.mean(sorted(column)[-k:]) for column in cosines.T]
    return np.array([[2 * cosines[i, j] - to_targets[i] - to_sources[j] for j in range(len(y))] for i in range(len(x))])
