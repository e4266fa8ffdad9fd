"""How much of a word's vector is its context (Ethayarajh 2019): pure functions of vectors, rows being occurrences of words.

    SelfSim(w)  = 1 / (n^2 - n)  sum_j sum_{k != j} cos(x_j, x_k)        x_1 .. x_n: the occurrences of w
    IntraSim(s) = 1 / n  sum_i cos(mean of s, x_i)                       x_1 .. x_n: the words of s
    MEV(w)      = sigma_1^2 / sum_i sigma_i^2                            singular values of the matrix of w's occurrences

Where all vectors of a layer lie in a narrow cone, all cosines are high. So each is told less what words drawn at random have: the mean
cosine of two occurrences (the layer's anisotropy) for the first two, the MEV of random occurrences for the third. A layer whose vectors
had no context would have SelfSim and MEV 1 before that is taken away. As in the paper, the third baseline is of many rows where a word has
few, and one direction tells more of few rows whatever they are: of noise in 50 numbers 0.30 of five, 0.03 of a thousand. An adjusted MEV
is to be compared with another layer's of the same words, not with 0.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from clew.core.errors import UserError

Array = np.ndarray
LEAST = 5
"""Occurrences, in different sentences, that a word needs to be told of."""
RANDOM = 1000
"""Occurrences that the baselines are of."""
SEED = 1


def self_similarity(rows: Array) -> float:
    """The mean cosine of two different rows: with unit rows u, (|sum u|^2 - n) / (n^2 - n)."""
    if len(rows) < 2:
        raise UserError("self-similarity is of two occurrences at least")
    directions = directed(rows)
    count = len(rows)
    own = float((directions**2).sum())  # n, unless a row is all zeros
    return (float((directions.sum(0) ** 2).sum()) - own) / (count**2 - count)


def intra_sentence_similarity(rows: Array) -> float:
    """The mean cosine of a sentence's words with their mean."""
    mean = directed(rows.mean(0, keepdims=True))[0]
    return float((directed(rows) @ mean).mean())


def explainable_variance(rows: Array) -> float:
    """The share of the rows' squared length that lies along their first singular direction; nothing is centred."""
    singular = np.linalg.svd(rows, compute_uv=False) ** 2
    total = float(singular.sum())
    return float(singular[0]) / total if total else 0.0


def directed(rows: Array) -> Array:
    rows = np.asarray(rows, dtype=np.float64)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)


class Contextuality(NamedTuple):
    """One layer: means over words and sentences, and what they are to be held against."""

    self_similarity: float
    intra_similarity: float
    explainable_variance: float
    anisotropy: float
    random_variance: float

    @property
    def adjusted_self_similarity(self) -> float:
        return self.self_similarity - self.anisotropy

    @property
    def adjusted_intra_similarity(self) -> float:
        return self.intra_similarity - self.anisotropy

    @property
    def adjusted_explainable_variance(self) -> float:
        return self.explainable_variance - self.random_variance


def occurrences(sentences: Sequence[Sequence[str]]) -> dict[str, list[int]]:
    """The places of every word, as it is spelt, among the words of all sentences; the first in each sentence."""
    found: dict[str, list[int]] = defaultdict(list)
    place = 0
    for words in sentences:
        seen: set[str] = set()
        for word in words:
            if word not in seen:
                seen.add(word)
                found[word].append(place)
            place += 1
    return dict(found)


def random_rows(count: int, most: int = RANDOM, seed: int = SEED) -> Array:
    """Places of occurrences, drawn without return."""
    return np.random.default_rng(seed).permutation(count)[:most]


def contextuality(rows: Array, sentences: Sequence[Sequence[str]], least: int = LEAST, most: int = RANDOM) -> Contextuality:
    """Of one layer's vectors of all words of sentences, in order."""
    places = {word: found for word, found in occurrences(sentences).items() if len(found) >= least}
    if not places:
        raise UserError(f"no word comes in {least} sentences, so that there is nothing to compare; read more sentences")
    ends = np.cumsum([len(words) for words in sentences])
    starts = ends - [len(words) for words in sentences]
    drawn = rows[random_rows(len(rows), most)]
    return Contextuality(
        float(np.mean([self_similarity(rows[found]) for found in places.values()])),
        float(np.mean([intra_sentence_similarity(rows[start:end]) for start, end in zip(starts, ends, strict=True)])),
        float(np.mean([explainable_variance(rows[found]) for found in places.values()])),
        self_similarity(drawn),
        explainable_variance(drawn),
    )


def random_cosines(rows: Array, most: int = RANDOM) -> Array:
    """Cosines of pairs of different occurrences drawn at random."""
    drawn = directed(rows[random_rows(len(rows), 2 * most)])
    half = len(drawn) // 2
    return (drawn[:half] * drawn[half : 2 * half]).sum(1)


def principal_components(rows: Array, num: int = 2, *, centre: bool = True) -> tuple[Array, Array]:
    """Coordinates (rows, num) along the directions of greatest variance, and each one's share of it; not centred, the first is about the
    mean's direction and the origin stays at 0. A direction's sign is that which makes its largest entry positive."""
    rows = np.asarray(rows, dtype=np.float64)
    rows = rows - rows.mean(0) if centre else rows
    u, singular, vt = np.linalg.svd(rows, full_matrices=False)
    num = min(num, len(singular))
    signs = np.sign(vt[np.arange(num), np.abs(vt[:num]).argmax(1)])
    signs[signs == 0] = 1
    total = float((singular**2).sum()) or 1.0
    return u[:, :num] * singular[:num] * signs, singular[:num] ** 2 / total
