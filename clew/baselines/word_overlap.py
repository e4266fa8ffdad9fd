"""The sentence of a passage that shares the most words with a question: an answer without understanding."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from clew.text.words import words_of

SENTENCE = re.compile(r"\S.*?(?:[.!?]+(?=\s|$)|$)", re.DOTALL)


@dataclass(frozen=True)
class WordOverlap:
    """Scores a sentence by the sum of the weights of the words it shares with the question, each once. Ties go to the
    first sentence.

    weight(w) = log((1 + passages) / (1 + passages with w))
    """

    weights: Mapping[str, float] = field(repr=False)
    unseen: float

    def answer(self, question: str, passage: str) -> tuple[int, int]:
        """The characters [start, stop) of the best sentence."""
        question_words = set(lowered(question))
        sentences = [match.span() for match in SENTENCE.finditer(passage)] or [(0, len(passage))]
        return max(sentences, key=lambda span: self.shared(question_words, passage[slice(*span)]))

    def shared(self, question_words: set[str], sentence: str) -> float:
        return sum(self.weights.get(word, self.unseen) for word in question_words & set(lowered(sentence)))


def fit_word_overlap(passages: Iterable[str]) -> WordOverlap:
    different = list(dict.fromkeys(passages))
    counts: Counter[str] = Counter()
    for passage in different:
        counts.update(set(lowered(passage)))
    weights = {word: math.log((1 + len(different)) / (1 + count)) for word, count in counts.items()}
    return WordOverlap(weights, math.log(1 + len(different)))


def lowered(text: str) -> Sequence[str]:
    """The words in lower case, without punctuation."""
    return [word.lower() for word in words_of(text) if any(map(str.isalnum, word))]
