"""Contextuality of word vectors (Ethayarajh 2019): pure functions of vectors, whose rows are occurrences of words.

    SelfSim(w)  = 1 / (n^2 - n)  sum_j sum_{k != j} cos(x_j, x_k)    x_1 .. x_n: the occurrences of w
    IntraSim(s) = 1 / n  sum_i cos(mean of s, x_i)                   x_1 .. x_n: the words of s
    MEV(w)      = sigma_1^2 / sum_i sigma_i^2                        singular values of the matrix of w's occurrences

If all vectors of a layer lie in a narrow cone, all cosines are high. So each measure is adjusted by subtracting its
value for random occurrences: the mean cosine of two occurrences (the layer's anisotropy) from the first two, the MEV of
random occurrences from the third. In a layer without context SelfSim and MEV are 1 before the adjustment. As in the
paper, the third baseline has many rows while a word has few, and one direction explains more of few rows whatever they
are: of noise in 50 dimensions 0.30 of five rows, 0.03 of a thousand. So compare an adjusted MEV with that of another
layer for the same words, not with 0.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from clew.core.errors import UserError

Array = np.ndarray
LEAST = 5
"""The fewest occurrences, in different sentences, of a word that is measured."""
RANDOM = 1000
"""Random occurrences used for the baselines."""
SEED = 1


def self_similarity(rows: Array) -> float:
    """Return the mean cosine of two different rows: with unit rows u, (|sum u|^2 - n) / (n^2 - n)."""
    if len(rows) < 2:
        raise UserError(f"self-similarity needs at least two occurrences, not {len(rows)}; give more sentences")
    directions = unit_rows(rows)
    count = len(rows)
    own = float((directions**2).sum())  # n, unless a row is all zeros
    return (float((directions.sum(0) ** 2).sum()) - own) / (count**2 - count)


def intra_sentence_similarity(rows: Array) -> float:
    """Return the mean cosine of the words of a sentence with their mean."""
    mean = unit_rows(rows.mean(0, keepdims=True))[0]
    return float((unit_rows(rows) @ mean).mean())


def explainable_variance(rows: Array) -> float:
    """Return the share of the rows' squared length along their first singular direction, without centring."""
    singular = np.linalg.svd(rows, compute_uv=False) ** 2
    total = float(singular.sum())
    return float(singular[0]) / total if total else 0.0


def unit_rows(rows: Array) -> Array:
    rows = np.asarray(rows, dtype=np.float64)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)


class Contextuality(NamedTuple):
    """Measures of one layer, as means over words and sentences, and their baselines."""

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
    """Return the places of every word, as spelt, among the words of all sentences; only the first occurrence in each
    sentence."""
    places: dict[str, list[int]] = defaultdict(list)
    place = 0
    for words in sentences:
        seen: set[str] = set()
        for word in words:
            if word not in seen:
                seen.add(word)
                places[word].append(place)
            place += 1
    return dict(places)


def random_rows(count: int, most: int = RANDOM, seed: int = SEED) -> Array:
    """Draw places of occurrences without replacement."""
    return np.random.default_rng(seed).permutation(count)[:most]


def contextuality(
    rows: Array, sentences: Sequence[Sequence[str]], least: int = LEAST, most: int = RANDOM
) -> Contextuality:
    """Measure one layer, from the vectors of all words of the sentences, in order."""
    places = {word: occurring for word, occurring in occurrences(sentences).items() if len(occurring) >= least}
    if not places:
        raise UserError(f"no word occurs in {least} sentences, so there is nothing to compare; read more sentences")
    ends = np.cumsum([len(words) for words in sentences])
    starts = ends - [len(words) for words in sentences]
    drawn = rows[random_rows(len(rows), most)]
    return Contextuality(
        float(np.mean([self_similarity(rows[occurring]) for occurring in places.values()])),
        float(np.mean([intra_sentence_similarity(rows[start:end]) for start, end in zip(starts, ends, strict=True)])),
        float(np.mean([explainable_variance(rows[occurring]) for occurring in places.values()])),
        self_similarity(drawn),
        explainable_variance(drawn),
    )


def random_cosines(rows: Array, most: int = RANDOM) -> Array:
    """Return the cosines of random pairs of different occurrences."""
    drawn = unit_rows(rows[random_rows(len(rows), 2 * most)])
    half = len(drawn) // 2
    return (drawn[:half] * drawn[half : 2 * half]).sum(1)


def principal_components(rows: Array, num: int = 2, *, centre: bool = True) -> tuple[Array, Array]:
    """Return coordinates (rows, num) along the directions of greatest variance, and each direction's share of it.

    Without `centre`, the first direction is roughly that of the mean, and the origin stays at 0. Signs make the largest
    entry of each direction positive.
    """
    rows = np.asarray(rows, dtype=np.float64)
    rows = rows - rows.mean(0) if centre else rows
    u, singular, vt = np.linalg.svd(rows, full_matrices=False)
    num = min(num, len(singular))
    signs = np.sign(vt[np.arange(num), np.abs(vt[:num]).argmax(1)])
    signs[signs == 0] = 1
    total = float((singular**2).sum()) or 1.0
    return u[:, :num] * singular[:num] * signs, singular[:num] ** 2 / total
