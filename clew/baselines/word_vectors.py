"""Word vectors from a text: skip-gram and CBOW with negative sampling (Mikolov et al. 2013), and PMI + SVD (Levy and
Goldberg 2014).

    skip-gram   log sigmoid(u_c . v_w)  +  sum over k noise words n of log sigmoid(-u_n . v_w)
                for each word w and neighbour c
    CBOW        the same with the mean of the neighbours' v for v_w, and w itself for c
    PMI         M_wc = max(0, log(p(w, c) / (p(w) p(c))) - log k),   V = U_d S_d^power  of  M ~ U S Z^T

Noise words are drawn by count^0.75. Before neighbours are taken, occurrences of frequent words are dropped with
probability 1 - sqrt(t / share of the word). The window of each occurrence is drawn from 1 to `window`.
"""

import gzip
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TextIO

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from clew.baselines.sparse import Sparse, sparse
from clew.baselines.words import Words, fit_words
from clew.core.errors import UserError, counted, did_you_mean, named, unknown
from clew.data.formats.navec_files import is_navec, read_navec
from clew.data.lines import is_zipped
from clew.data.vectors import first_words, read_vectors

METHODS = ("skip_gram", "cbow")
SMOOTHING = 0.75
NOISE = 64
"""The number of noise words per batch."""
AT_ONCE = 2**17
"""The number of words whose neighbours are in memory at once."""
LOOKED_AT = 20_000
"""The number of words that are searched for the correct spelling of a misspelt one."""

Progress = Callable[[int, int], None]
"""Called with the number of words read, and the number to read in all."""


@dataclass(frozen=True)
class WordVectors:
    """One row of `vectors` (words, dim) for each word, the most frequent first."""

    words: Words
    vectors: Tensor = field(repr=False)

    @property
    def dim(self) -> int:
        return self.vectors.shape[1]

    def vector(self, word: str) -> Tensor:
        if word not in self.words:
            near = did_you_mean(word, self.words.words[:LOOKED_AT])
            raise UserError(f"no vector for {named(word)}{near} {counted(len(self.words), 'word')} have one")
        return self.vectors[self.words.index[word]]

    def nearest(self, word: str | Tensor, num: int = 10) -> list[tuple[str, float]]:
        """The words with the largest cosine with a vector or with a word, without that word; each with its cosine."""
        return self.nearest_sum([word], num=num) if isinstance(word, str) else self._nearest(word, num, ())

    def analogy(self, a: str, b: str, c: str, num: int = 10) -> list[tuple[str, float]]:
        """The words d in "a is to b as c is to d": the nearest to b - a + c (Mikolov et al. 2013)."""
        return self.nearest_sum([b, c], [a], num)

    def nearest_sum(self, plus: Sequence[str], minus: Sequence[str] = (), num: int = 10) -> list[tuple[str, float]]:
        """The words nearest to a sum of vectors, `plus` minus `minus`, each of length 1; without these words."""
        terms = [
            sign * F.normalize(self.vector(word), dim=0) for sign, words in ((1, plus), (-1, minus)) for word in words
        ]
        return self._nearest(torch.stack(terms).sum(0), num, (*plus, *minus))

    def _nearest(self, vector: Tensor, num: int, without: Sequence[str]) -> list[tuple[str, float]]:
        cosines = F.normalize(self.vectors, dim=1) @ F.normalize(vector, dim=0)
        left_out = {self.words.index[word] for word in without}
        order = [i for i in cosines.argsort(descending=True, stable=True).tolist() if i not in left_out]
        return [(self.words.words[i], float(cosines[i])) for i in order[: max(num, 0)]]

    def save(self, path: Path | str) -> Path:
        """Write word2vec's text format: the number of words and the dim, then one line per word with its vector;
        gzipped if the name is."""
        path = Path(path)
        for word in self.words.words:
            if not word or any(character.isspace() for character in word):
                raise UserError(
                    f"the word {named(word)} is empty or has a space in it, which the text format of vectors cannot"
                    " hold"
                )
        aside = path.with_name(path.name + ".partial")
        try:
            with write_text(aside, zipped=is_zipped(path)) as stream:
                stream.write(f"{len(self.words)} {self.dim}\n")
                for word, vector in zip(self.words.words, self.vectors.tolist(), strict=True):
                    stream.write(f"{word} {' '.join(f'{number:.7g}' for number in vector)}\n")
            aside.replace(path)
        except OSError as error:
            raise UserError(
                f"cannot write the vectors to {path}: {error.strerror or error}; choose another place"
            ) from None
        return path


def write_text(path: Path, *, zipped: bool) -> TextIO:
    """Open a text file. A gzipped file contains no name or time, so that equal vectors make equal files."""
    if not zipped:
        return path.open("w", encoding="utf-8", newline="\n")
    return io.TextIOWrapper(gzip.GzipFile(path, "wb", mtime=0), encoding="utf-8", newline="\n")


def load_word_vectors(path: Path | str, most: int = 10**7) -> WordVectors:
    """The words of a file, or the first `most`, in any format of `clew.data.vectors`, or navec's."""
    if is_navec(path):
        words, values = read_navec(path, most)
        return WordVectors(Words(words), torch.from_numpy(values))
    words = list(dict.fromkeys(first_words(path, most)))
    return WordVectors(Words(words), torch.from_numpy(read_vectors(path, words, lowercase=False).values))


def fit_word2vec(
    sentences: Iterable[Sequence[str]],
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
    progress: Progress = lambda done, total: None,
) -> WordVectors:
    """Fit skip_gram or cbow and return the vectors v. The same seed gives the same vectors. The sentences are read
    twice.

    Departs from the authors' program: pairs come in batches, in random order; all pairs of a batch share its noise
    words, weighted by `num_noise`, so that scores are one matrix product with the same expected loss; and steps are
    Adagrad's, which suit rare and frequent words.
    """
    if method not in METHODS:
        raise unknown("method", method, METHODS)
    for name, value in {"dim": dim, "window": window, "num_noise": num_noise, "epochs": epochs, "batch": batch}.items():
        if value < 1:
            raise UserError(f"{name} ({value}) must be at least 1")
    if subsample < 0:
        raise UserError(f"subsample ({subsample}) must be at least 0, which keeps every word")
    words = fit_words(sentences, min_count)
    text = joined(sentences, words)
    counts = np.bincount(text[text >= 0], minlength=len(words))
    random = np.random.default_rng(seed)
    noise = np.cumsum(counts**SMOOTHING)
    keep = np.minimum(1.0, np.sqrt(subsample / (counts / counts.sum()))) if subsample else np.ones(len(words))
    inputs = Table(torch.from_numpy(random.uniform(-0.5 / dim, 0.5 / dim, (len(words), dim)).astype(np.float32)))
    outputs = Table(torch.zeros(len(words), dim))
    for epoch in range(epochs):
        left = thinned(text, keep, random)
        for number, (centres, neighbours) in enumerate(in_windows(left, window, random)):
            read, targets = (centres, neighbours) if method == "skip_gram" else (neighbours, centres)
            order = random.permutation(len(read))
            for start in range(0, len(order), batch):
                chosen = order[start : start + batch]
                drawn = np.searchsorted(noise, random.random(NOISE) * noise[-1], side="right")
                examples = Batch(*map(torch.from_numpy, (read[chosen], targets[chosen], drawn)))
                learn(inputs, outputs, examples, num_noise, rate)
                progress(epoch * len(text) + (number * AT_ONCE + start) * len(text) // len(left), epochs * len(text))
    progress(epochs * len(text), epochs * len(text))
    return WordVectors(words, inputs.rows)


class Table:
    """One row per word, with Adagrad's sums of squared gradients (Duchi et al. 2011)."""

    def __init__(self, rows: Tensor):
        self.rows = rows
        self.squares = torch.full_like(rows, 1e-8)

    def descend(self, words: Tensor, gradients: Tensor, rate: float) -> None:
        """One step against the summed gradients of each word."""
        different, place = words.unique(return_inverse=True)
        summed = torch.zeros(len(different), gradients.shape[1]).index_add_(0, place, gradients)
        self.squares.index_add_(0, different, summed**2)
        self.rows.index_add_(0, different, summed * self.squares.index_select(0, different).rsqrt_(), alpha=-rate)


class Batch(NamedTuple):
    """Words, padded with -1: the inputs, the targets to predict from them, and noise words for all rows."""

    read: Tensor  # (batch, inputs of a row)
    targets: Tensor  # (batch, targets of a row)
    noise: Tensor  # (noise,)


def learn(inputs: Table, outputs: Table, batch: Batch, num_noise: int, rate: float) -> None:
    """One gradient step on a batch: the mean vector h of a row's inputs predicts each of the row's targets.

        loss = sum over rows and their targets c of
               -log sigmoid(u_c . h) - num_noise * mean over noise n of log sigmoid(-u_n . h)

    A noise word that equals the target is ignored.
    """
    read, targets, noise = batch
    rows, words = real_words(read)
    share = 1 / torch.bincount(rows, minlength=len(read))[rows, None]
    vectors = share * inputs.rows.index_select(0, words)
    hidden = torch.zeros(len(read), inputs.rows.shape[1]).index_add_(0, rows, vectors)  # (batch, dim)

    target_rows, right_words = real_words(targets)
    right, wrong = outputs.rows.index_select(0, right_words), outputs.rows.index_select(0, noise)
    hidden_of_right = hidden.index_select(0, target_rows)  # (all targets, dim)
    to_right = -torch.sigmoid(-(right * hidden_of_right).sum(1, keepdim=True))  # d loss / d score
    num_scored = ((targets[..., None] != noise) & (targets[..., None] >= 0)).sum(1)  # (batch, noise)
    to_wrong = torch.sigmoid(hidden @ wrong.T) * num_scored * (num_noise / len(noise))

    to_hidden = (to_wrong @ wrong).index_add_(0, target_rows, to_right * right)
    outputs.descend(torch.cat([right_words, noise]), torch.cat([to_right * hidden_of_right, to_wrong.T @ hidden]), rate)
    inputs.descend(words, share * to_hidden.index_select(0, rows), rate)


def real_words(padded: Tensor) -> tuple[Tensor, Tensor]:
    """The row of each word, and the words themselves."""
    rows, places = (padded >= 0).nonzero(as_tuple=True)
    return rows, padded[rows, places]


def joined(sentences: Iterable[Sequence[str]], words: Words) -> np.ndarray:
    """All words as ids, with -1 after each sentence; unknown words are left out."""
    parts = (part[part >= 0] for part in map(words.ids, sentences))
    text = np.concatenate([ids for part in parts for ids in (part, np.array([-1]))])
    if not ((text[1:] >= 0) & (text[:-1] >= 0)).any():
        raise UserError(
            "no sentence has two neighbouring words with vectors; give longer sentences or a smaller min_count"
        )
    return text


def thinned(text: np.ndarray, keep: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """The text with words dropped at random by their probabilities; the ends of sentences are kept."""
    return text[random.random(len(text)) < np.append(keep, 1.0)[text]]


def in_windows(
    text: np.ndarray, window: int, random: np.random.Generator | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Words (n, 1) and the neighbours in their windows (n, 2 * window), -1 if there is none. With `random`, each word's
    window is drawn from 1 to `window`."""
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
    sentences: Iterable[Sequence[str]],
    *,
    dim: int = 100,
    window: int = 5,
    shift: float = 1.0,
    smoothing: float = SMOOTHING,
    power: float = 0.5,
    min_count: int = 1,
    seed: int = 1,
    progress: Progress = lambda done, total: None,
) -> WordVectors:
    """Vectors from the shifted positive PMI of words and neighbours: V = U_d S_d^power, from the d largest singular
    values.

    `shift` is k, the equivalent number of noise words. p(c) is proportional to count^smoothing (Levy et al. 2015). The
    sentences are read twice.
    """
    for name, value in {"dim": dim, "window": window, "shift": shift}.items():
        if value < 1:
            raise UserError(f"{name} ({value}) must be at least 1")
    words = fit_words(sentences, min_count)
    pmi = positive_pmi(count_pairs(joined(sentences, words), window, len(words), progress), shift, smoothing)
    left, values, _ = truncated_svd(pmi._replace(values=pmi.values.float()), min(dim, len(words)), seed)
    return WordVectors(words, left * values**power)


def count_pairs(text: np.ndarray, window: int, num_words: int, progress: Progress = lambda done, total: None) -> Sparse:
    """How often each word (column) occurs in the window around each word (row)."""
    keys: np.ndarray = np.empty(0, np.int64)
    counts: np.ndarray = np.empty(0)
    for number, (centres, neighbours) in enumerate(in_windows(text, window), start=1):
        new, new_counts = np.unique((centres * num_words + neighbours)[neighbours >= 0], return_counts=True)
        keys, place = np.unique(np.concatenate([keys, new]), return_inverse=True)
        counts = np.bincount(place, np.concatenate([counts, new_counts]))
        progress(min(number * AT_ONCE, len(text)), len(text))
    return sparse(keys // num_words, keys % num_words, counts, (num_words, num_words))


def positive_pmi(counts: Sparse, shift: float = 1.0, smoothing: float = SMOOTHING) -> Sparse:
    """max(0, log(p(w, c) / (p(w) p(c))) - log shift), without its zeros."""
    rows, columns = counts.rows.numpy(), counts.columns.numpy()
    values = counts.values.numpy()
    of_word, of_neighbour = (np.bincount(side, values, counts.num_columns) for side in (rows, columns))
    smoothed = of_neighbour**smoothing
    pmi = np.log(values) - np.log(of_word[rows]) - np.log(smoothed[columns] / smoothed.sum()) - np.log(shift)
    kept = pmi > 0
    return sparse(rows[kept], columns[kept], pmi[kept], counts.shape)


def truncated_svd(matrix: Sparse, dim: int, seed: int = 1, num_passes: int = 6) -> tuple[Tensor, Tensor, Tensor]:
    """The `dim` largest singular values and their vectors, M ~ U S Z^T, by randomised subspace iteration (Halko et al.
    2011).

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
