"""Bilingual lexicon induction: a rotation that maps the vectors of one language to those of their translations, and a
dictionary from it.

Pure functions of NumPy vectors, whose rows are words; the caller knows which words.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from clew.core.errors import UserError

Array = np.ndarray
BLOCK = 2**24
"""The most products held in memory at a time."""
NEIGHBOURS = 10
KS = (1, 5, 10)


def unit(rows: Array) -> Array:
    """Scale rows to length 1; rows of zeros stay zero."""
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-30)


def centred(rows: Array) -> Array:
    return rows - rows.mean(0)


PREPARATIONS: dict[str, Callable[[Array], Array]] = {
    "unit": unit,
    "centre": lambda rows: unit(centred(rows)),
    "unit_centre": lambda rows: unit(centred(unit(rows))),
}
"""Preparations of each language's vectors; each ends with rows of length 1 (Artetxe et al. 2016)."""


def procrustes(x: Array, y: Array) -> Array:
    """Orthogonal Procrustes: the R with orthonormal rows or columns that minimises ||X R - Y|| (Schoenemann 1966; Xing
    et al. 2015).

        Y^T X = U S V^T        R = V U^T

    If Y is wider than X, R embeds X's space in Y's, as if X were padded with zeros; if Y is narrower, as if Y were
    padded.
    """
    assert len(x) == len(y)
    if not len(x):
        raise UserError("there are no pairs of words to fit the rotation to; give at least one")
    u, _, vt = np.linalg.svd(y.T.astype(np.float64) @ x.astype(np.float64), full_matrices=False)
    return vt.T @ u.T  # (dim of x, dim of y)


def shared_space(x: Array, y: Array, rotation: Array) -> tuple[Array, Array]:
    """Map both languages to the narrower of their spaces, so that products equal those of X R with Y."""
    if x.shape[1] <= y.shape[1]:
        return x.astype(np.float32), (y @ rotation.T).astype(np.float32)
    return (x @ rotation).astype(np.float32), y.astype(np.float32)


class Space(NamedTuple):
    """Vectors of a source and a target language in one space; with CSLS, `hubs` is r_S of every target word."""

    source: Array
    target: Array
    hubs: Array | None = None

    def scores(self, rows: Array) -> Array:
        """Score every target word as a translation of source words (rows, targets), by the cosine of x and y, or

            CSLS(x, y) = 2 cos(x, y) - r_T(x) - r_S(y)      (Conneau et al. 2018, section 2.3)

        r_T(x) is the mean cosine of x with its k nearest target words; it does not change the order and could be
        omitted in a retrieval.
        """
        cosines = self.source[rows] @ self.target.T
        if self.hubs is None:
            return cosines
        return 2 * cosines - top_mean(cosines, NEIGHBOURS)[:, None] - self.hubs

    def nearest(self, rows: Array, num: int) -> tuple[Array, Array]:
        """Return the best `num` target words of each source word (rows, num), best first, and their scores; the earlier
        wins ties."""
        num = min(num, len(self.target))
        indices, values = np.zeros((len(rows), num), dtype=np.int64), np.zeros((len(rows), num), dtype=np.float32)
        for part in blocks(len(rows), len(self.target)):
            scores = self.scores(rows[part])
            best = np.argpartition(-scores, num - 1, axis=1)[:, :num]
            best.sort(1)
            best_scores = np.take_along_axis(scores, best, 1)
            order = np.argsort(-best_scores, axis=1, kind="stable")
            indices[part] = np.take_along_axis(best, order, 1)
            values[part] = np.take_along_axis(best_scores, order, 1)
        return indices, values

    def swapped(self) -> "Space":
        """Exchange source and target."""
        return with_hubs(Space(self.target, self.source)) if self.hubs is not None else Space(self.target, self.source)


def space_of(x: Array, y: Array, rotation: Array, *, csls: bool) -> Space:
    space = Space(*shared_space(x, y, rotation))
    return with_hubs(space) if csls else space


def with_hubs(space: Space) -> Space:
    return space._replace(hubs=mean_of_nearest(space.target, space.source, NEIGHBOURS))


def mean_of_nearest(rows: Array, candidates: Array, k: int) -> Array:
    """Return r(x): the mean cosine of each row with its k nearest among `candidates`."""
    means = np.zeros(len(rows), dtype=np.float32)
    for part in blocks(len(rows), len(candidates)):
        means[part] = top_mean(rows[part] @ candidates.T, k)
    return means


def blocks(num_rows: int, num_columns: int) -> Iterator[slice]:
    size = max(BLOCK // max(num_columns, 1), 1)
    return (slice(start, start + size) for start in range(0, num_rows, size))


def top_mean(values: Array, k: int) -> Array:
    k = min(k, values.shape[1])
    return np.partition(values, values.shape[1] - k, axis=1)[:, -k:].mean(1)


def mutual_nearest(space: Space, most: int) -> Array:
    """Return pairs (pairs, 2) of source and target words that are each other's nearest, among the first `most` of
    each."""
    few = Space(space.source[:most], space.target[:most])
    few = with_hubs(few) if space.hubs is not None else few
    nearest = few.nearest(np.arange(len(few.source)), 1)[0][:, 0]
    nearest_back = few.swapped().nearest(np.arange(len(few.target)), 1)[0][:, 0]
    mutual = np.flatnonzero(nearest_back[nearest] == np.arange(len(nearest)))
    return np.stack([mutual, nearest[mutual]], 1)


def align_spaces(x: Array, y: Array, pairs: Array, *, rounds: int = 0, most: int = 10_000) -> Array:
    """Fit the rotation to dictionary pairs (pairs, 2) and refine it: in each round, pairs that are each other's nearest
    by CSLS among the first `most` words of each language are added to the dictionary (Conneau et al. 2018)."""
    rotation = procrustes(x[pairs[:, 0]], y[pairs[:, 1]])
    for _ in range(rounds):
        mutual = mutual_nearest(space_of(x[:most], y[:most], rotation, csls=True), most)
        joined = np.unique(np.concatenate([pairs, mutual]), axis=0)
        rotation = procrustes(x[joined[:, 0]], y[joined[:, 1]])
    return rotation


class Precision(NamedTuple):
    """Precision at k: the percentage of source words with a correct translation among the first k.

    `num_words` were evaluated, of `num_in_all`: those that have a vector and a translation with a vector.
    """

    at: dict[int, float]
    num_words: int
    num_in_all: int

    def of_all(self) -> dict[int, float]:
        """Return the precision with words that cannot be evaluated counted as wrong."""
        return {k: value * self.num_words / self.num_in_all for k, value in self.at.items()}


def precision_at(
    space: Space, gold: Mapping[int, Iterable[int]], num_in_all: int | None = None, ks: Sequence[int] = KS
) -> Precision:
    """Measure precision; `gold` maps the row of a source word to the rows of all its translations, any of which is
    correct."""
    words = np.array(sorted(gold), dtype=np.int64)
    if not len(words):
        raise UserError(
            "no pair of the lexicon has vectors on both sides, so nothing can be measured; use more words or other"
            " files"
        )
    candidates = space.nearest(words, max(ks))[0]
    correct = np.array(
        [
            [row in set(gold[word]) for row in rows]
            for word, rows in zip(words.tolist(), candidates.tolist(), strict=True)
        ]
    )
    return Precision({k: 100 * float(correct[:, :k].any(1).mean()) for k in ks}, len(words), num_in_all or len(words))


def folds(pairs: Array, num: int, seed: int = 1) -> list[tuple[Array, Array]]:
    """Split pairs into `num` folds (rest, held out). Pairs of one source word are in the same fold."""
    words = np.unique(pairs[:, 0])
    part = dict(
        zip(
            np.random.default_rng(seed).permutation(words).tolist(), (np.arange(len(words)) % num).tolist(), strict=True
        )
    )
    number = np.array([part[word] for word in pairs[:, 0].tolist()])
    return [(pairs[number != each], pairs[number == each]) for each in range(num)]


def translations(pairs: Array) -> dict[int, set[int]]:
    targets: dict[int, set[int]] = {}
    for source, target in pairs.tolist():
        targets.setdefault(source, set()).add(target)
    return targets


class Choice(NamedTuple):
    """Settings and their precision at 1 in cross-validation."""

    preparation: str
    rounds: int
    precision: float


def cross_validate(
    x: Array,
    y: Array,
    pairs: Array,
    names: Sequence[str] = tuple(PREPARATIONS),
    rounds: Sequence[int] = (0, 1),
    num_folds: int = 3,
    most: int = 10_000,
) -> list[Choice]:
    """Measure how well each preparation and number of refinement rounds translates held-out pairs by nearest neighbour;
    best first, and the simpler wins ties. Only the training dictionary decides, never the one used for evaluation."""
    choices = []
    for name in names:
        left, right = PREPARATIONS[name](x), PREPARATIONS[name](y)
        for num in rounds:
            scores = []
            for train_pairs, held_out in folds(pairs, num_folds):
                space = space_of(left, right, align_spaces(left, right, train_pairs, rounds=num, most=most), csls=False)
                scores.append(precision_at(space, translations(held_out), ks=(1,)).at[1])
            choices.append(Choice(name, num, float(np.mean(scores))))
    return sorted(choices, key=lambda choice: -choice.precision)
