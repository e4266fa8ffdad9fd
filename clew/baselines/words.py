"""Numbered words, the most frequent first."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain

import numpy as np

from clew.core.errors import UserError

UNKNOWN = "<unk>"


class Words:
    """Distinct words; a word's id is its index. If `UNKNOWN` is among them, it stands for all others."""

    def __init__(self, words: Iterable[str]):
        self.words = tuple(words)

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self.index

    @cached_property
    def index(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.words)}

    def ids(self, words: Iterable[str]) -> np.ndarray:
        """The id of each word; an unknown word has that of `UNKNOWN`, or -1 without it."""
        index, unknown = self.index, self.index.get(UNKNOWN, -1)
        return np.array([index.get(word, unknown) for word in words], dtype=np.int64)


def fit_words(sentences: Iterable[Sequence[str]], min_count: int = 1, always: Sequence[str] = ()) -> Words:
    """The words that occur at least `min_count` times, by frequency and then in alphabetical order; followed by those
    of `always` that are not among them."""
    if min_count < 1:
        raise UserError(f"min_count ({min_count}) must be at least 1")
    counts = Counter(chain.from_iterable(sentences))
    frequent = sorted(
        (word for word, count in counts.items() if count >= min_count), key=lambda word: (-counts[word], word)
    )
    if not frequent:
        raise UserError(
            f"no word occurs {min_count} times; give more text or a smaller min_count"
            if counts
            else "no words; give some text"
        )
    return Words(dict.fromkeys([*frequent, *always]))
