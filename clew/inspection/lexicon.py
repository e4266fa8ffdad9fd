"""Two languages, one space: a rotation that lays the words of one language on their translations, and a dictionary read off it.

Pure functions of vectors, NumPy; which words they are of is the caller's. Rows are words.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from clew.core.errors import UserError

Array = np.ndarray
BLOCK = 2**24
"""Products that are in memory at a time."""
NEIGHBOURS = 10
KS = (1, 5, 10)


def unit(rows: Array) -> Array:
    """Rows of length 1; those of zeros stay."""
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-30)


def centred(rows: Array) -> Array:
    return rows - rows.mean(0)


PREPARATIONS: dict[str, Callable[[Array], Array]] = {
    "unit": unit,
    "centre": lambda rows: unit(centred(rows)),
    "unit_centre": lambda rows: unit(centred(unit(rows))),
}
"""What is done to each language's vectors first; every one of them ends with rows of length 1 (Artetxe et al. 2016)."""


def procrustes(x: Array, y: Array) -> Array:
    """The R with orthonormal rows or columns that minimises ||X R - Y|| (Schoenemann 1966; Xing et al. 2015).

        Y^T X = U S V^T        R = V U^T

    Where Y is wider than X, R lays X's space into Y's as it is, which is the same as X padded with zeros; where it is narrower, Y is what
    would be padded.
    """
    if len(x) != len(y) or not len(x):
        raise UserError(f"Procrustes takes as many rows on either side, one at least, not {len(x)} and {len(y)}")
    u, _, vt = np.linalg.svd(y.T.astype(np.float64) @ x.astype(np.float64), full_matrices=False)
    return vt.T @ u.T  # (dim of x, dim of y)


def shared_space(x: Array, y: Array, rotation: Array) -> tuple[Array, Array]:
    """Both languages' words in the narrower of their spaces, so that every product is the one of X R with Y."""
    if x.shape[1] <= y.shape[1]:
        return x.astype(np.float32), (y @ rotation.T).astype(np.float32)
    return (x @ rotation).astype(np.float32), y.astype(np.float32)


class Space(NamedTuple):
    """Words of a source and of a target language whose products are compared; `hubs` are r_S of every target word, where CSLS is asked."""

    source: Array
    target: Array
    hubs: Array | None = None

    def scores(self, rows: Array) -> Array:
        """(rows, targets): how well each target word translates these source words. The cosine of x and y, or

            CSLS(x, y) = 2 cos(x, y) - r_T(x) - r_S(y)      (Conneau et al. 2018, section 2.3)

        r_T(x) is the mean cosine of x with its k nearest target words; it orders nothing and is left out of a retrieval, but not here.
        """
        cosines = self.source[rows] @ self.target.T
        if self.hubs is None:
            return cosines
        return 2 * cosines - top_mean(cosines, NEIGHBOURS)[:, None] - self.hubs

    def nearest(self, rows: Array, num: int) -> tuple[Array, Array]:
        """The best `num` target words of each source word, best first (rows, num), and their scores; of equals the earlier."""
        num = min(num, len(self.target))
        found, values = np.zeros((len(rows), num), dtype=np.int64), np.zeros((len(rows), num), dtype=np.float32)
        for part in blocks(len(rows), len(self.target)):
            scores = self.scores(rows[part])
            best = np.argpartition(-scores, num - 1, axis=1)[:, :num]
            best.sort(1)
            there = np.take_along_axis(scores, best, 1)
            order = np.argsort(-there, axis=1, kind="stable")
            found[part] = np.take_along_axis(best, order, 1)
            values[part] = np.take_along_axis(there, order, 1)
        return found, values

    def swapped(self) -> "Space":
        """The same the other way round."""
        return with_hubs(Space(self.target, self.source)) if self.hubs is not None else Space(self.target, self.source)


def space_of(x: Array, y: Array, rotation: Array, *, csls: bool) -> Space:
    space = Space(*shared_space(x, y, rotation))
    return with_hubs(space) if csls else space


def with_hubs(space: Space) -> Space:
    return space._replace(hubs=mean_of_nearest(space.target, space.source, NEIGHBOURS))


def mean_of_nearest(rows: Array, others: Array, k: int) -> Array:
    """r(x): the mean cosine of each row with its k nearest among others."""
    found = np.zeros(len(rows), dtype=np.float32)
    for part in blocks(len(rows), len(others)):
        found[part] = top_mean(rows[part] @ others.T, k)
    return found


def blocks(num_rows: int, num_columns: int) -> Iterator[slice]:
    size = max(BLOCK // max(num_columns, 1), 1)
    return (slice(start, start + size) for start in range(0, num_rows, size))


def top_mean(values: Array, k: int) -> Array:
    k = min(k, values.shape[1])
    return np.partition(values, values.shape[1] - k, axis=1)[:, -k:].mean(1)


def mutual_nearest(space: Space, most: int) -> Array:
    """Pairs (pairs, 2) of a source and a target word, among the `most` first of each, that are each other's nearest."""
    few = Space(space.source[:most], space.target[:most])
    few = with_hubs(few) if space.hubs is not None else few
    there = few.nearest(np.arange(len(few.source)), 1)[0][:, 0]
    back = few.swapped().nearest(np.arange(len(few.target)), 1)[0][:, 0]
    kept = np.flatnonzero(back[there] == np.arange(len(there)))
    return np.stack([kept, there[kept]], 1)


def align(x: Array, y: Array, pairs: Array, *, rounds: int = 0, most: int = 10_000) -> Array:
    """The rotation of a dictionary's pairs (pairs, 2), refined: pairs that are each other's nearest by CSLS, among the `most` first
    words of each language, join the given ones as the next round's dictionary (Conneau et al. 2018)."""
    rotation = procrustes(x[pairs[:, 0]], y[pairs[:, 1]])
    for _ in range(rounds):
        found = mutual_nearest(space_of(x[:most], y[:most], rotation, csls=True), most)
        joined = np.unique(np.concatenate([pairs, found]), axis=0)
        rotation = procrustes(x[joined[:, 0]], y[joined[:, 1]])
    return rotation


class Precision(NamedTuple):
    """The share of source words, in percent, one of whose translations is among the first 1, 5 and 10; `num_words` that were asked, which
    are those that have a vector and a translation with one, of `num_in_all`."""

    at: dict[int, float]
    num_words: int
    num_in_all: int

    def of_all(self) -> dict[int, float]:
        """The same when a word that cannot be asked counts as wrong."""
        return {k: value * self.num_words / self.num_in_all for k, value in self.at.items()}


def precision(space: Space, gold: Mapping[int, Iterable[int]], num_in_all: int | None = None, ks: Sequence[int] = KS) -> Precision:
    """`gold` has every translation of a source word, by their rows; any of them counts."""
    words = np.array(sorted(gold), dtype=np.int64)
    if not len(words):
        raise UserError(
            "no pair of the lexicon has a vector on both sides, so that nothing can be measured; take more words or other files"
        )
    found = space.nearest(words, max(ks))[0]
    right = np.array([[row in set(gold[word]) for row in rows] for word, rows in zip(words.tolist(), found.tolist(), strict=True)])
    return Precision({k: 100 * float(right[:, :k].any(1).mean()) for k in ks}, len(words), num_in_all or len(words))


def folds(pairs: Array, num: int, seed: int = 1) -> list[tuple[Array, Array]]:
    """The pairs in `num` parts, each once held out: (rest, held out). Pairs of one source word are on one side."""
    words = np.unique(pairs[:, 0])
    part = dict(zip(np.random.default_rng(seed).permutation(words).tolist(), (np.arange(len(words)) % num).tolist(), strict=True))
    number = np.array([part[word] for word in pairs[:, 0].tolist()])
    return [(pairs[number != each], pairs[number == each]) for each in range(num)]


def translations(pairs: Array) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {}
    for source, target in pairs.tolist():
        found.setdefault(source, set()).add(target)
    return found


class Choice(NamedTuple):
    """Settings, and the precision at 1 that cross-validation found for them."""

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
    """How well each preparation and number of refinements translates pairs that were held out, by nearest neighbour; best first, of equals
    the simpler. The dictionary that is learnt from alone decides, never the one that is measured on."""
    found = []
    for name in names:
        left, right = PREPARATIONS[name](x), PREPARATIONS[name](y)
        for num in rounds:
            scores = []
            for kept, held in folds(pairs, num_folds):
                space = space_of(left, right, align(left, right, kept, rounds=num, most=most), csls=False)
                scores.append(precision(space, translations(held), ks=(1,)).at[1])
            found.append(Choice(name, num, float(np.mean(scores))))
    return sorted(found, key=lambda choice: -choice.precision)
