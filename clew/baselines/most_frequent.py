"""The most frequent answer, regardless of the input: one class for every text, one tag for every word."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from clew.core.errors import UserError

Labels = tuple[str, ...]
Shape = tuple[str, bool]
SUFFIX = 3


@dataclass(frozen=True)
class MostFrequentClass:
    """The share of texts with each label. If labels exclude each other, predicts the most frequent; if not, all labels
    that more than half of the texts have."""

    labels: Labels
    shares: tuple[float, ...]
    exclusive: bool = True

    def predict_proba(self, texts: Sequence[object]) -> np.ndarray:
        """The same row (texts, labels) for each text."""
        return np.tile(self.shares, (len(texts), 1))

    def predict(self, texts: Sequence[object]) -> list[Labels]:
        return predicted_labels(self.predict_proba(texts), self.labels, self.exclusive)


def predicted_labels(probs: np.ndarray, labels: Labels, exclusive: bool) -> list[Labels]:
    """The labels that probabilities (texts, labels) predict: the most probable, the first of equals; or all above
    1/2."""
    if exclusive:
        return [(labels[i],) for i in probs.argmax(axis=1)]
    return [tuple(label for label, is_likely in zip(labels, row, strict=True) if is_likely) for row in probs > 0.5]


def fit_most_frequent_class(answers: Sequence[Labels], exclusive: bool = True) -> MostFrequentClass:
    labels = known_labels(answers, exclusive)
    counts = Counter(label for answer in answers for label in answer)
    return MostFrequentClass(labels, tuple(counts[label] / len(answers) for label in labels), exclusive)


def known_labels(answers: Sequence[Labels], exclusive: bool) -> Labels:
    """All labels in alphabetical order. Refuses texts without exactly one label or, if not `exclusive`, with a label
    twice."""
    if not answers:
        raise UserError("no labels; give some labelled texts")
    for number, answer in enumerate(answers, start=1):
        if exclusive and len(answer) != 1:
            raise UserError(
                f"text {number} has {len(answer)} labels; each needs exactly one if labels exclude each other"
            )
        if len(set(answer)) != len(answer):
            raise UserError(f"text {number} has a label twice: {', '.join(answer)}")
    return tuple(sorted({label for answer in answers for label in answer}))


@dataclass(frozen=True)
class MostFrequentTag:
    """The most frequent tag of each word; for an unknown word, that of words with its shape, or else of all words.

    A word's shape is its last three letters, with digits as 0, and whether it begins with a capital.
    """

    by_word: Mapping[str, str]
    by_shape: Mapping[Shape, str]
    overall: str

    def tag(self, words: Sequence[str]) -> list[str]:
        return [self.by_word.get(word, self.by_shape.get(shape(word), self.overall)) for word in words]


def fit_most_frequent_tag(
    sentences: Iterable[tuple[Sequence[str], Sequence[str]]], *, shapes: bool = True
) -> MostFrequentTag:
    """Fit pairs of words and tags. Shapes are counted over words that occur once, which resemble unknown words.
    Without `shapes`, an unknown word gets the most frequent tag."""
    by_word: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for number, (words, tags) in enumerate(sentences, start=1):
        if len(words) != len(tags):
            raise UserError(f"sentence {number} has {len(words)} words and {len(tags)} tags; each word needs one")
        for word, tag in zip(words, tags, strict=True):
            by_word[word][tag] += 1
    overall: Counter[str] = Counter()
    for counts in by_word.values():
        overall.update(counts)
    if not overall:
        raise UserError("no words to take tags from; give some tagged sentences")
    by_shape: defaultdict[Shape, Counter[str]] = defaultdict(Counter)
    for word, tags_of_word in by_word.items() if shapes else ():
        if tags_of_word.total() == 1:
            by_shape[shape(word)].update(tags_of_word)
    return MostFrequentTag(
        {word: most_frequent(counts) for word, counts in by_word.items()},
        {form: most_frequent(counts) for form, counts in by_shape.items()},
        most_frequent(overall),
    )


def shape(word: str) -> Shape:
    return "".join("0" if character.isdigit() else character for character in word[-SUFFIX:].lower()), word[
        :1
    ].isupper()


def most_frequent(counts: Counter[str]) -> str:
    """The most frequent label; ties go to the first in the alphabet."""
    return min(counts, key=lambda label: (-counts[label], label))
