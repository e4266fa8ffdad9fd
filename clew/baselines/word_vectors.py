"""Word vectors of a text: skip-gram and CBOW with negative sampling (Mikolov et al. 2013), and PMI + SVD (Levy and Goldberg 2014).

    skip-gram   log sigmoid(u_c . v_w)  +  sum over k noise words n of log sigmoid(-u_n . v_w)       for each word w and neighbour c
    CBOW        the same with the mean of the neighbours' v for v_w, and w itself for c
    PMI         M_wc = max(0, log(p(w, c) / (p(w) p(c))) - log k),   V = U_d S_d^power  of  M ~ U S Z^T

Noise words are drawn by count^0.75. A frequent word is left out of the text before neighbours are taken, with probability
1 - sqrt(t / its share). A word has each time a window of its own, from 1 to `window`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from clew.baselines.sparse import Sparse, sparse
from clew.baselines.words import Words, fit_words
from clew.core.errors import UserError, did_you_mean, named, unknown
from clew.data.lines import read_lines

METHODS = ("skip_gram", "cbow")
SMOOTHING = 0.75
NOISE = 64
"""Noise words of a batch."""
AT_ONCE = 2**17
"""Words whose neighbours are in memory at a time."""


@dataclass(frozen=True)
class WordVectors:
    """One row of `vectors` (words, dim) a word, the most frequent first."""

    words: Words
    vectors: Tensor = field(repr=False)

    @property
    def dim(self) -> int:
        return self.vectors.shape[1]

    def vector(self, word: str) -> Tensor:
        if word not in self.words:
            raise UserError(f"no vector for {named(word)}{did_you_mean(word, self.words.words)} {len(self.words):,} words have one")
        return self.vectors[self.words.index[word]]

    def nearest(self, word: str | Tensor, num: int = 10) -> list[tuple[str, float]]:
        """The words of largest cosine with a word, itself left out, or with a vector; each with that cosine."""
        without = (word,) if isinstance(word, str) else ()
        return self._nearest(self.vector(word) if isinstance(word, str) else word, num, without)

    def analogy(self, a: str, b: str, c: str, num: int = 10) -> list[tuple[str, float]]:
        """What is to c as b is to a: the words nearest b - a + c, each of length 1 (Mikolov et al. 2013), these three left out."""
        first, second, third = (F.normalize(self.vector(word), dim=0) for word in (a, b, c))
        return self._nearest(second - first + third, num, (a, b, c))

    def _nearest(self, vector: Tensor, num: int, without: Sequence[str]) -> list[tuple[str, float]]:
        cosines = F.normalize(self.vectors, dim=1) @ F.normalize(vector, dim=0)
        left_out = {self.words.index[word] for word in without}
        order = [i for i in cosines.argsort(descending=True, stable=True).tolist() if i not in left_out]
        return [(self.words.words[i], float(cosines[i])) for i in order[: max(num, 0)]]

    def save(self, path: Path | str) -> Path:
        """In word2vec's text format: how many words and how wide, then a word and its numbers a line."""
        path = Path(path)
        for word in self.words.words:
            if not word or any(character.isspace() for character in word):
                raise UserError(f"the word {named(word)} is empty or has a space in it, which the text format of vectors cannot hold")
        aside = path.with_name(path.name + ".partial")
        try:
            with aside.open("w", encoding="utf-8", newline="\n") as stream:
                stream.write(f"{len(self.words)} {self.dim}\n")
                for word, vector in zip(self.words.words, self.vectors.tolist(), strict=True):
                    stream.write(f"{word} {' '.join(f'{number:.7g}' for number in vector)}\n")
            aside.replace(path)
        except OSError as error:
            raise UserError(f"cannot write the vectors to {path}: {error.strerror or error}; choose another place") from None
        return path


def load_word_vectors(path: Path | str) -> WordVectors:
    """From word2vec's text format, gzipped or not."""
    path = Path(path)
    lines = read_lines(path)
    first = next(lines).split()
    if len(first) != 2 or not all(number.isdecimal() for number in first):
        raise UserError(f"{path}:1: expected how many words there are and how wide their vectors, such as 10000 100")
    num_words, dim = map(int, first)
    vectors: dict[str, np.ndarray] = {}
    for number, line in enumerate(lines, start=2):
        word, *numbers = line.rstrip(" ").split(" ")
        if len(numbers) != dim:
            raise UserError(f"{path}:{number}: expected a word and {dim} numbers, found {len(numbers)} numbers")
        if word in vectors:
            raise UserError(f"{path}:{number}: the word {named(word)} was there before; leave one of them out")
        try:
            vectors[word] = np.array(numbers, dtype=np.float32)
        except ValueError:
            raise UserError(f"{path}:{number}: not all that follow {named(word)} are numbers; mend the line or leave it out") from None
        if not np.isfinite(vectors[word]).all():
            raise UserError(f"{path}:{number}: a number of {named(word)} is too large, or none; mend the line or leave it out")
    if len(vectors) != num_words or not vectors:
        raise UserError(f"{path}: its first line tells of {num_words} words, and {len(vectors)} follow; copy it again")
    return WordVectors(Words(vectors), torch.from_numpy(np.stack(list(vectors.values()))))


def fit_word2vec(
    sentences: Sequence[Sequence[str]],
    method: str = "skip_gram",
    *,
    dim: int = 100,
    window: int = 5,
    num_noise: int = 5,
    epochs: int = 5,
    min_count: int = 1,
    subsample: float = 1e-3,
    rate: float = 0.1,
    batch: int = 256,
    seed: int = 1,
) -> WordVectors:
    """skip_gram or cbow; the vectors v. Same seed, same vectors.

    What departs from the authors' program: pairs come in batches, in random order; the noise words of a batch are drawn together and
    each pair is held against all of them, with the weight of `num_noise`; and steps are Adagrad's, which suit rare words and frequent ones.
    """
    if method not in METHODS:
        raise unknown("method", method, METHODS)
    for name, value in {"dim": dim, "window": window, "num_noise": num_noise, "epochs": epochs, "batch": batch}.items():
        if value < 1:
            raise UserError(f"{name} ({value}) must be at least 1")
    if subsample < 0:
        raise UserError(f"subsample ({subsample}) must not be below 0, which leaves out no word")
    words = fit_words(sentences, min_count)
    text = joined(sentences, words)
    counts = np.bincount(text[text >= 0], minlength=len(words))
    random = np.random.default_rng(seed)
    noise = np.cumsum(counts**SMOOTHING)
    keep = np.minimum(1.0, np.sqrt(subsample / (counts / counts.sum()))) if subsample else np.ones(len(words))
    inputs = Table(torch.from_numpy(random.uniform(-0.5 / dim, 0.5 / dim, (len(words), dim)).astype(np.float32)))
    outputs = Table(torch.zeros(len(words), dim))
    for _ in range(epochs):
        for centres, neighbours in in_windows(thinned(text, keep, random), window, random):
            read, targets = (centres, neighbours) if method == "skip_gram" else (neighbours, centres)
            order = random.permutation(len(read))
            for chosen in np.split(order, range(batch, len(order), batch)):
                drawn = np.searchsorted(noise, random.random(NOISE) * noise[-1], side="right")
                given = Batch(*map(torch.from_numpy, (read[chosen], targets[chosen], drawn)))
                learn(inputs, outputs, given, num_noise, rate)
    return WordVectors(words, inputs.rows)


class Table:
    """A row a word, with Adagrad's sum of squared gradients for each number (Duchi et al. 2011)."""

    def __init__(self, rows: Tensor):
        self.rows = rows
        self.squares = torch.full_like(rows, 1e-8)

    def descend(self, words: Tensor, gradients: Tensor, rate: float) -> None:
        """One step down the sum of the gradients that each word has."""
        different, place = words.unique(return_inverse=True)
        summed = torch.zeros(len(different), gradients.shape[1]).index_add_(0, place, gradients)
        self.squares.index_add_(0, different, summed**2)
        self.rows.index_add_(0, different, summed * self.squares.index_select(0, different).rsqrt_(), alpha=-rate)


class Batch(NamedTuple):
    """Words, padded with -1: what is read, what is to be predicted of it, and noise for all rows."""

    read: Tensor  # (batch, some)
    targets: Tensor  # (batch, some)
    noise: Tensor  # (noise,)


def learn(inputs: Table, outputs: Table, batch: Batch, num_noise: int, rate: float) -> None:
    """One step down the loss of a batch: the mean vector h of what a row reads predicts each of its targets.

        loss = sum over rows and their targets c of  -log sigmoid(u_c . h) - num_noise * mean over noise n of log sigmoid(-u_n . h)

    A noise word that is the target itself counts for nothing.
    """
    read, targets, noise = batch
    rows, words = real_words(read)
    share = 1 / torch.bincount(rows, minlength=len(read))[rows, None]
    hidden = torch.zeros(len(read), inputs.rows.shape[1]).index_add_(0, rows, share * inputs.rows.index_select(0, words))  # (batch, dim)

    target_rows, right_words = real_words(targets)
    right, wrong = outputs.rows.index_select(0, right_words), outputs.rows.index_select(0, noise)
    hidden_of_right = hidden.index_select(0, target_rows)  # (all targets, dim)
    to_right = -torch.sigmoid(-(right * hidden_of_right).sum(1, keepdim=True))  # d loss / d score
    num_told = ((targets[..., None] != noise) & (targets[..., None] >= 0)).sum(1)  # (batch, noise)
    to_wrong = torch.sigmoid(hidden @ wrong.T) * num_told * (num_noise / len(noise))

    to_hidden = (to_wrong @ wrong).index_add_(0, target_rows, to_right * right)
    outputs.descend(torch.cat([right_words, noise]), torch.cat([to_right * hidden_of_right, to_wrong.T @ hidden]), rate)
    inputs.descend(words, share * to_hidden.index_select(0, rows), rate)


def real_words(padded: Tensor) -> tuple[Tensor, Tensor]:
    """The row of each word, and the words themselves."""
    rows, places = (padded >= 0).nonzero(as_tuple=True)
    return rows, padded[rows, places]


def joined(sentences: Sequence[Sequence[str]], words: Words) -> np.ndarray:
    """All words as ids, with -1 after each sentence; words that are not known are left out."""
    parts = (part[part >= 0] for part in map(words.ids, sentences))
    text = np.concatenate([ids for part in parts for ids in (part, np.array([-1]))])
    if not ((text[1:] >= 0) & (text[:-1] >= 0)).any():
        raise UserError("no word has another beside it; give longer sentences or a smaller min_count")
    return text


def thinned(text: np.ndarray, keep: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """The text with each word kept with its probability; the ends of sentences stay."""
    return text[random.random(len(text)) < np.append(keep, 1.0)[text]]


def in_windows(text: np.ndarray, window: int, random: np.random.Generator | None = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Words (n, 1) and the neighbours in their windows (n, 2 * window), -1 where there is none. A word's window is from 1 to `window`
    where it is random."""
    gap = np.full(window, -1)
    padded = np.concatenate([gap, text, gap])
    sentence = np.cumsum(padded < 0)
    offsets = np.array([offset for offset in range(-window, window + 1) if offset])
    for start in range(0, len(text), AT_ONCE):
        places = np.arange(start, min(start + AT_ONCE, len(text)))[:, None] + window
        is_near = sentence[places + offsets] == sentence[places]
        if random is not None:
            is_near &= np.abs(offsets) <= random.integers(1, window + 1, size=(len(places), 1))
        neighbours = np.where(is_near, padded[places + offsets], -1)  # (n, 2 * window)
        used = (padded[places[:, 0]] >= 0) & (neighbours >= 0).any(axis=1)
        yield padded[places[used]], neighbours[used]


def fit_pmi(
    sentences: Sequence[Sequence[str]],
    *,
    dim: int = 100,
    window: int = 5,
    shift: float = 1.0,
    smoothing: float = SMOOTHING,
    power: float = 0.5,
    min_count: int = 1,
    seed: int = 1,
) -> WordVectors:
    """Vectors of the shifted positive PMI of words and neighbours: V = U_d S_d^power, from the d largest singular values.

    `shift` is k: more than 1 as if there were so many noise words. p(c) is by count^smoothing (Levy et al. 2015).
    """
    for name, value in {"dim": dim, "window": window, "shift": shift}.items():
        if value < 1:
            raise UserError(f"{name} ({value}) must be at least 1")
    words = fit_words(sentences, min_count)
    pmi = positive_pmi(count_pairs(joined(sentences, words), window, len(words)), shift, smoothing)
    left, values, _ = truncated_svd(pmi._replace(values=pmi.values.float()), min(dim, len(words)), seed)
    return WordVectors(words, left * values**power)


def count_pairs(text: np.ndarray, window: int, num_words: int) -> Sparse:
    """How often each word (row) has each other (column) in the window around it."""
    keys: np.ndarray = np.empty(0, np.int64)
    counts: np.ndarray = np.empty(0)
    for centres, neighbours in in_windows(text, window):
        new, found = np.unique((centres * num_words + neighbours)[neighbours >= 0], return_counts=True)
        keys, place = np.unique(np.concatenate([keys, new]), return_inverse=True)
        counts = np.bincount(place, np.concatenate([counts, found]))
    return sparse(keys // num_words, keys % num_words, counts, (num_words, num_words))


def positive_pmi(counts: Sparse, shift: float = 1.0, smoothing: float = SMOOTHING) -> Sparse:
    """max(0, log(p(w, c) / (p(w) p(c))) - log shift), its zeros left out."""
    rows, columns = counts.rows.numpy(), counts.columns.numpy()
    values = counts.values.numpy()
    of_word, of_neighbour = (np.bincount(side, values, counts.num_columns) for side in (rows, columns))
    smoothed = of_neighbour**smoothing
    pmi = np.log(values) - np.log(of_word[rows]) - np.log(smoothed[columns] / smoothed.sum()) - np.log(shift)
    kept = pmi > 0
    return sparse(rows[kept], columns[kept], pmi[kept], counts.shape)


def truncated_svd(matrix: Sparse, dim: int, seed: int = 1, num_passes: int = 6) -> tuple[Tensor, Tensor, Tensor]:
    """The `dim` largest singular values and their vectors, M ~ U S Z^T: randomised subspace iteration (Halko et al. 2011).

    Q = orthonormal(M Omega), then Q = orthonormal(M orthonormal(M^T Q)) a few times;  Q^T M = (small) U S Z^T
    """
    num_rows, num_columns = matrix.shape
    transposed = matrix.mT
    width = min(dim + max(10, dim // 5), num_rows, num_columns)
    omega = torch.randn(num_columns, width, generator=torch.Generator().manual_seed(seed), dtype=matrix.values.dtype)
    basis = torch.linalg.qr(matrix @ omega).Q  # (rows, width)
    for _ in range(num_passes):
        basis = torch.linalg.qr(matrix @ torch.linalg.qr(transposed @ basis).Q).Q
    left, values, right = torch.linalg.svd((transposed @ basis).T, full_matrices=False)
    return basis @ left[:, :dim], values[:dim], right[:dim].T
