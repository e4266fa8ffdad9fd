"""Interpolated n-gram language model with modified Kneser-Ney discounts (Kneser and Ney 1995; Chen and Goodman 1999).

    p(w | h)  = (c(h w) - D(c(h w))) / c(h .)  +  gamma(h) * p(w | h')        h' is h without its first token
    gamma(h)  = sum_w D(c(h w)) / c(h .)
    p(w)      = (c(w) - D(c(w))) / c(.)  +  gamma() / vocabulary

For the highest order n, c is the number of times an n-gram occurs; below it, the number of different tokens that occur
before it. An n-gram at the beginning of a sequence has nothing before it and keeps its number of occurrences. D is one
discount for c = 1, one for 2, and one for 3 and more, for each order:

    Y = n_1 / (n_1 + 2 n_2),   D_c = c - (c + 1) Y n_{c+1} / n_c              n_c is the number of n-grams with count c

If a text is too small to have all of n_1 .. n_4, or if they give no discount between 0 and c, D_c = c / 2.

N-grams are numbered within their order. An n-gram's key is the number of its history, the n-gram without its last
token, times the number of tokens, plus its last token. So any order and vocabulary fits into 64 bits, and counting is
sorting.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from clew.baselines.words import UNKNOWN, Words, fit_words
from clew.core.errors import UserError
from clew.core.masks import row_lengths
from clew.metrics.perplexity import Likelihood

END = "</s>"
NOTHING = -1


class Counted(NamedTuple):
    """The distinct n-grams of one order, by key."""

    keys: np.ndarray
    counts: np.ndarray
    suffixes: np.ndarray  # the number, in the order below, of the n-gram without its first token
    is_first: np.ndarray  # whether it begins a sequence


class Order(NamedTuple):
    """The probabilities that one order adds to the order below it."""

    keys: np.ndarray  # ascending
    probs: np.ndarray  # (c(h w) - D) / c(h .)
    gammas: np.ndarray  # of each history; histories are numbered as n-grams of the order below


class KneserNey:
    """Tokens are ids below `vocabulary`. A start token, which is never predicted, precedes every sequence; nothing is
    added at its end."""

    def __init__(self, vocabulary: int, unigrams: np.ndarray, orders: Sequence[Order]):
        self.vocabulary = vocabulary
        self.unigrams = unigrams  # (vocabulary,)
        self.orders = list(orders)

    @property
    def order(self) -> int:
        return len(self.orders) + 1

    def log_probs(self, tokens: Sequence[int] | np.ndarray) -> np.ndarray:
        """log p of each token of a sequence, given those before it."""
        return self._log_probs(joined([tokens], self.vocabulary))

    def likelihood(self, sequences: Iterable[Sequence[int] | np.ndarray], *, firsts: bool = True) -> Likelihood:
        """The likelihood, and so the perplexity, of all tokens of these sequences, with or without their first ones.
        The caller adds the number of characters."""
        text = joined(sequences, self.vocabulary)
        log_probs = self._log_probs(text)
        if not firsts:
            log_probs = log_probs[(text[:-1] != self.vocabulary)[text[1:] != self.vocabulary]]
        return Likelihood(-float(log_probs.sum()), len(log_probs))

    def probs(self, history: Sequence[int] | np.ndarray = ()) -> np.ndarray:
        """p of every token (vocabulary,) after the first tokens of a sequence."""
        return self._probs(joined([history], self.vocabulary))

    def score(self, prefix: Sequence[int] | np.ndarray) -> np.ndarray:
        """log p of every token (vocabulary,) after a prefix, as a search over any language model needs it."""
        return np.log(self.probs(prefix))

    def sample(self, max_new: int, history: Sequence[int] = (), *, end: int | None = None, seed: int = 1) -> list[int]:
        """Draw up to `max_new` tokens after the history; if `end` is drawn, it is the last."""
        random = np.random.default_rng(seed)
        text = joined([history], self.vocabulary)[-self.order :]
        tokens: list[int] = []
        while len(tokens) < max_new and (end is None or tokens[-1:] != [end]):
            cumulative = self._probs(text).cumsum()
            tokens.append(int(np.searchsorted(cumulative, random.random() * cumulative[-1], side="right")))
            text = np.append(text, tokens[-1])[-self.order :]
        return tokens

    def stepper(self) -> "KneserNeyStepper":
        """A stepper for all other ways of decoding."""
        return KneserNeyStepper(self)

    def _log_probs(self, text: np.ndarray) -> np.ndarray:
        """log p of every token of joined sequences, without their starts."""
        start = self.vocabulary
        probs = np.append(self.unigrams, 1.0)[text]
        grams = text  # the number of the n-gram that ends at each position
        for order in self.orders:
            history = np.append(NOTHING, grams[:-1])
            places = np.flatnonzero(history >= 0)
            numbers = look_up(order.keys, history[places] * (start + 1) + text[places])
            grams = np.full(len(text), NOTHING)
            grams[places] = numbers
            own = np.where(numbers >= 0, order.probs[numbers], 0.0) if len(order.keys) else np.zeros(len(numbers))
            probs[places] = own + order.gammas[history[places]] * probs[places]
        return np.log(probs[text != start])

    def _probs(self, text: np.ndarray) -> np.ndarray:
        """p of every token after the last order - 1 tokens of a joined sequence, or fewer if it is shorter."""
        history = text[max(len(text) - self.order + 1, 0) :]
        numbers = history  # of the n-grams that end at each position of the history, one order after another
        probs = self.unigrams.copy()
        tokens = self.vocabulary + 1
        for k, order in enumerate(self.orders[: len(history)], start=1):
            last = numbers[-1]
            if last < 0:
                break
            low, high = np.searchsorted(order.keys, [last * tokens, (last + 1) * tokens])
            probs *= order.gammas[last]
            probs[order.keys[low:high] % tokens] += order.probs[low:high]
            previous = numbers[:-1]
            numbers = np.where(previous >= 0, look_up(order.keys, previous * tokens + history[k:]), NOTHING)
        return probs


def fit_kneser_ney(sequences: Iterable[Sequence[int] | np.ndarray], vocabulary: int, order: int = 5) -> KneserNey:
    """Fit a model of the ids below `vocabulary`, including ids that do not occur in the sequences."""
    if vocabulary < 1 or order < 1:
        raise UserError(f"vocabulary ({vocabulary}) and order ({order}) must be at least 1")
    text = joined(sequences, vocabulary)
    if bool((text == vocabulary).all()):
        raise UserError("no token to count; give some text")
    counted = list(count_ngrams(text, vocabulary, order))
    unigrams, orders = np.empty(0), []
    for k, ngrams in enumerate(counted):
        counts = ngrams.counts if k + 1 == order else continuations(ngrams, counted[k + 1])
        if k == 0:
            counts = counts[:vocabulary]  # the start is never predicted
            discounts = discounts_of(counts)
            unigrams = (counts - discounts + discounts.sum() / vocabulary) / counts.sum()
        else:
            discounts, histories = discounts_of(counts), ngrams.keys // (vocabulary + 1)
            num_histories = len(counted[k - 1].keys)
            totals = np.bincount(histories, counts, num_histories)
            discounted = np.bincount(histories, discounts, num_histories)
            # 1 for histories that nothing follows.
            gammas = np.divide(discounted, totals, out=np.ones(num_histories), where=totals > 0)
            orders.append(Order(ngrams.keys, (counts - discounts) / totals[histories], gammas))
    return KneserNey(vocabulary, unigrams, orders)


def joined(sequences: Iterable[Sequence[int] | np.ndarray], vocabulary: int) -> np.ndarray:
    """All tokens, with a start token, whose id is `vocabulary`, before each sequence."""
    start = np.array([vocabulary])
    text = np.concatenate([start[:0], *(part for tokens in sequences for part in (start, checked(tokens, vocabulary)))])
    return text.astype(np.int64)


def checked(tokens: Sequence[int] | np.ndarray, vocabulary: int) -> np.ndarray:
    ids = np.asarray(tokens, dtype=np.int64)
    wrong = ids[(ids < 0) | (ids >= vocabulary)]
    if len(wrong):
        raise UserError(f"token {wrong[0]} must be between 0 and {vocabulary - 1}, as the vocabulary has {vocabulary}")
    return ids


def count_ngrams(text: np.ndarray, start: int, order: int) -> Iterator[Counted]:
    """Yield one order after another; each numbers its histories by the order before. No n-gram crosses a start."""
    tokens = start + 1
    counts = np.bincount(text, minlength=tokens)
    numbers = text  # of the n-gram that ends at each position
    is_first = np.arange(tokens) == start
    yield Counted(np.arange(tokens), counts, np.empty(0, np.int64), is_first)
    for _ in range(1, order):
        places = np.flatnonzero((numbers[:-1] >= 0) & (text[1:] != start)) + 1
        keys, first, inverse, counts = np.unique(
            numbers[places - 1] * tokens + text[places], return_index=True, return_inverse=True, return_counts=True
        )
        is_first = is_first[keys // tokens]
        yield Counted(keys, counts, numbers[places[first]], is_first)
        numbers = np.full(len(text), NOTHING)
        numbers[places] = inverse


def continuations(ngrams: Counted, longer: Counted) -> np.ndarray:
    """The number of different tokens before each n-gram; for an n-gram that begins a sequence, its number of
    occurrences."""
    return np.where(ngrams.is_first, ngrams.counts, np.bincount(longer.suffixes, minlength=len(ngrams.keys)))


def discounts_of(counts: np.ndarray) -> np.ndarray:
    """D(c) for every count."""
    n = [int((counts == c).sum()) for c in range(5)]
    by_count = [0.0, 0.5, 1.0, 1.5]
    for c in (1, 2, 3):
        if n[1] and n[c]:
            discount = c - (c + 1) * n[1] / (n[1] + 2 * n[2]) * n[c + 1] / n[c]
            by_count[c] = discount if 0 < discount < c else by_count[c]
    return np.array(by_count)[np.minimum(counts, 3)]


def look_up(keys: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """The index of each query among the ascending keys; NOTHING if it is missing."""
    if not len(keys):
        return np.full(len(queries), NOTHING)
    places = np.searchsorted(keys, queries)
    places[places == len(keys)] = 0
    return np.where(keys[places] == queries, places, NOTHING)


class KneserNeyStepper:
    """The model as a stepper. The state is each row's last order - 1 tokens; at first only the start."""

    def __init__(self, model: KneserNey):
        self.model = model
        self.vocabulary = model.vocabulary

    def initial_state(self, rows: int, capacity: int | None = None) -> Tensor:
        state = torch.full((rows, self.model.order), NOTHING)
        state[:, -1] = self.vocabulary
        return state[:, 1:]

    def __call__(self, tokens: Tensor, mask: Tensor | None, state: Tensor) -> tuple[Tensor, Tensor]:
        rows, length = tokens.shape
        width = self.model.order - 1
        text = torch.cat([state, tokens], dim=1)  # (rows, width + length)
        histories = (
            text.unfold(1, width, 1)[:, 1:].reshape(rows * length, width) if width else text.new_empty(rows * length, 0)
        )
        probs = np.stack([self.model._probs(history[history >= 0]) for history in histories.numpy()])
        log_probs = torch.from_numpy(np.log(probs)).reshape(rows, length, self.vocabulary)
        lengths = torch.full((rows,), length) if mask is None else row_lengths(mask)
        return log_probs, text.gather(1, lengths[:, None] + torch.arange(width))


class KneserNeyWords:
    """A model of sentences of words. Unknown words are one word, `<unk>`, and the end of a sentence is predicted
    too."""

    def __init__(self, words: Words, model: KneserNey):
        self.words = words
        self.model = model

    def encode(self, sentence: Sequence[str]) -> np.ndarray:
        return self.words.ids([*sentence, END])

    def log_probs(self, sentence: Sequence[str]) -> np.ndarray:
        """log p of each word and of the end."""
        return self.model.log_probs(self.encode(sentence))

    def likelihood(self, sentences: Iterable[Sequence[str]]) -> Likelihood:
        """The likelihood of all words and ends of these sentences."""
        return self.model.likelihood(map(self.encode, sentences))

    def sample(self, max_new: int, history: Sequence[str] = (), *, seed: int = 1) -> list[str]:
        """Continue a sentence from its first words, up to its end or `max_new` words."""
        tokens = self.model.sample(max_new, self.words.ids(history).tolist(), end=self.words.index[END], seed=seed)
        words = [self.words.words[token] for token in tokens]
        return words[:-1] if words[-1:] == [END] else words


def fit_kneser_ney_words(sentences: Sequence[Sequence[str]], order: int = 5, min_count: int = 1) -> KneserNeyWords:
    """Fit a model in which words that occur less than `min_count` times are unknown, in the training text too."""
    words = fit_words(sentences, min_count, always=(UNKNOWN, END))
    encoded = (words.ids([*sentence, END]) for sentence in sentences)
    return KneserNeyWords(words, fit_kneser_ney(encoded, len(words), order))
