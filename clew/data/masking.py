"""Choose the tokens of a row that a model must predict, and what it reads in their places (Devlin et al. 2019). The
random numbers of a place are a hash of (seed, epoch, example, place), so they do not depend on the order of examples,
rows or processes."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from clew.text.tokenizer import Tokenizer

WORD_STARTS = ("Ġ", "▁", " ", "Ċ", "\n")
"""What a piece that begins a word starts with, in tokenizers that do not mark the pieces inside words."""
CHOICE, FATE, REPLACEMENT = range(3)
IGNORED = -100


class Hidden(NamedTuple):
    tokens: np.ndarray  # (rows, length), as the model reads them
    places: np.ndarray  # (rows, chosen), 0 where a row has fewer
    targets: np.ndarray  # (rows, chosen), IGNORED there


@dataclass(frozen=True, eq=False)
class Masking:
    """Of each row's tokens, the share `chosen` must be predicted, at least one. Of these, the share `masked` is read as
    `mask`, the share `replaced` as a random token, and the rest unchanged. Special tokens are neither chosen nor drawn.
    To choose whole words, `continues_word` (vocabulary,) is True for the pieces that continue a word."""

    chosen: float
    masked: float
    replaced: float
    mask: int
    is_ordinary: np.ndarray  # (vocabulary,)
    continues_word: np.ndarray | None = None

    def hide(self, tokens: np.ndarray, real: np.ndarray, seed: int, epoch: int, examples: np.ndarray) -> Hidden:
        """Mask rows (rows, length), real where `real` is True, of the `examples` with these numbers."""
        draws = Draws(seed, epoch, examples, tokens.shape[1])
        can_be_chosen = self.is_ordinary[tokens] & real
        counts = can_be_chosen.sum(1)
        num_chosen = np.where(counts > 0, np.maximum(np.rint(self.chosen * counts), 1), 0).astype(np.int64)
        order = np.where(can_be_chosen, draws.uniform(CHOICE), 2.0)
        if self.continues_word is None:
            places = np.argsort(order, axis=1)[:, : num_chosen.max(initial=0)]
        else:
            words = [
                whole_words(*row) for row in zip(order, self.continues_word[tokens], num_chosen.tolist(), strict=True)
            ]
            num_chosen = np.array([len(row) for row in words], dtype=np.int64)
            places = np.zeros((len(words), num_chosen.max(initial=0)), dtype=np.int64)
            for row, chosen in enumerate(words):
                places[row, : len(chosen)] = chosen
        is_chosen = np.arange(places.shape[1]) < num_chosen[:, None]
        places = np.where(is_chosen, places, 0)
        targets = np.where(is_chosen, np.take_along_axis(tokens, places, 1), IGNORED)
        rows, columns = np.nonzero(is_chosen)
        return Hidden(self.replace(tokens, rows, places[rows, columns], draws), places, targets)

    def replace(self, tokens: np.ndarray, rows: np.ndarray, places: np.ndarray, draws: "Draws") -> np.ndarray:
        """Return the tokens with what the model reads at the chosen places."""
        ordinary = np.flatnonzero(self.is_ordinary)
        fate = draws.uniform(FATE)[rows, places]
        drawn = ordinary[(draws.uniform(REPLACEMENT)[rows, places] * len(ordinary)).astype(np.int64)]
        read = tokens.copy()
        read[rows, places] = np.select(
            [fate < self.masked, fate < self.masked + self.replaced], [self.mask, drawn], read[rows, places]
        )
        return read


class Draws:
    """Uniform numbers in [0, 1), an array (rows, length) for each kind."""

    def __init__(self, seed: int, epoch: int, examples: np.ndarray, length: int):
        key = np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)
        self.rows = mix_bits(key ^ examples.astype(np.uint64))[:, None]
        self.columns = np.arange(length, dtype=np.uint64)

    def uniform(self, kind: int) -> np.ndarray:
        return (mix_bits(self.rows ^ (self.columns * np.uint64(4) + np.uint64(kind))) >> np.uint64(11)) * 2.0**-53


def mix_bits(numbers: np.ndarray) -> np.ndarray:
    """SplitMix64's step (Steele et al. 2014): every bit of the result depends on every bit of the number."""
    numbers = numbers + np.uint64(0x9E3779B97F4A7C15)
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def whole_words(order: np.ndarray, continues_word: np.ndarray, num_chosen: int) -> list[int]:
    """Choose the places of whole words, in the order of their first pieces' random numbers. Words that would exceed
    `num_chosen` places are skipped, but at least one word is chosen."""
    can_be_chosen = order < 1
    begins = np.flatnonzero(can_be_chosen & ~(continues_word & np.concatenate([[False], can_be_chosen[:-1]])))
    words = []
    for begin in begins[np.argsort(order[begins])].tolist():
        end = begin + 1
        while end < len(order) and can_be_chosen[end] and continues_word[end]:
            end += 1
        words.append(range(begin, end))
    chosen: list[int] = []
    for word in words:
        if len(chosen) + len(word) <= num_chosen:
            chosen += word
    return chosen or [place for word in words[:1] for place in word]


def masking_of(tokenizer: Tokenizer, chosen: float, masked: float, replaced: float, *, whole: bool) -> Masking:
    """Build the masking for a tokenizer: its special tokens and, for whole words, the pieces that continue a word."""
    assert tokenizer.mask is not None
    is_ordinary = np.ones(tokenizer.vocabulary, dtype=bool)
    is_ordinary[[*tokenizer.specials.values(), *([] if tokenizer.unknown is None else [tokenizer.unknown])]] = False
    continues_word = None
    if whole:
        by_mark = tokenizer.kind == "wordpiece"
        continues_word = np.array(
            [token.startswith("##") if by_mark else not token.startswith(WORD_STARTS) for token in tokenizer.tokens]
        )
    return Masking(chosen, masked, replaced, tokenizer.mask, is_ordinary, continues_word)
