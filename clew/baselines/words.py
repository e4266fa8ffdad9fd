"""Words by number, the most frequent first."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain

import numpy as np

from clew.core.errors import UserError

UNKNOWN = "<unk>"


class Words:
    """Different words, each with its place as its id. Where `UNKNOWN` is among them, it stands for all others."""

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
        """One id a word; -1 for a word that is not known, where `UNKNOWN` is not either."""
        index, other = self.index, self.index.get(UNKNOWN, -1)
        return np.array([index.get(word, other) for word in words], dtype=np.int64)


def fit_words(sentences: Iterable[Sequence[str]], min_count: int = 1, always: Sequence[str] = ()) -> Words:
    """The words that come at least so often, the first in the alphabet before others that are as frequent; then those of `always`
    that are not yet among them."""
    if min_count < 1:
        raise UserError(f"min_count ({min_count}) must be at least 1")
    counts = Counter(chain.from_iterable(sentences))
    found = sorted((word for word, count in counts.items() if count >= min_count), key=lambda word: (-counts[word], word))
    if not found:
        raise UserError(f"no word comes {min_count} times; give more text or a smaller min_count" if counts else "no words; give some text")
    return Words(dict.fromkeys([*found, *always]))
