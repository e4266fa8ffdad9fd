"""ROUGE-1, ROUGE-2 and ROUGE-L: the overlap of a candidate summary with a reference (Lin 2004).

    recall = overlap / reference      precision = overlap / candidate      F1 = 2 overlap / (reference + candidate)

The overlap is the number of common n-grams, with multiplicity, or for ROUGE-L the longest common subsequence of words.
At summary level, a word of a reference sentence counts if it lies on a longest common subsequence with any sentence of
the candidate, and no more often than either summary has it. With several references, the one with the highest F1
counts. The corpus score is the mean over summaries. Ratios are between 0 and 1; there is no stemming.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from clew.core.errors import UserError

Words = Sequence[str]


class Overlap(NamedTuple):
    """The overlap of one candidate with one reference."""

    shared: int
    candidate: int
    reference: int

    @property
    def precision(self) -> float:
        return self.shared / self.candidate if self.candidate else 0.0

    @property
    def recall(self) -> float:
        return self.shared / self.reference if self.reference else 0.0

    @property
    def f1(self) -> float:
        return 2 * self.shared / (self.candidate + self.reference) if self.shared else 0.0


@dataclass(frozen=True)
class MeanOverlap:
    """Sums over summaries; parts add."""

    precisions: float = 0.0
    recalls: float = 0.0
    f1s: float = 0.0
    num_summaries: int = 0

    def __add__(self, other: "MeanOverlap") -> "MeanOverlap":
        return MeanOverlap(
            self.precisions + other.precisions,
            self.recalls + other.recalls,
            self.f1s + other.f1s,
            self.num_summaries + other.num_summaries,
        )

    @property
    def precision(self) -> float:
        return self.mean(self.precisions)

    @property
    def recall(self) -> float:
        return self.mean(self.recalls)

    @property
    def f1(self) -> float:
        return self.mean(self.f1s)

    def mean(self, total: float) -> float:
        if not self.num_summaries:
            raise UserError("no summary was scored, so there is no mean; give at least one candidate and its reference")
        return total / self.num_summaries


@dataclass(frozen=True)
class Rouge:
    """ROUGE-1, ROUGE-2, ROUGE-L of the text as one line, and ROUGE-L at summary level, where lines are sentences."""

    one: MeanOverlap = MeanOverlap()
    two: MeanOverlap = MeanOverlap()
    longest: MeanOverlap = MeanOverlap()
    summary: MeanOverlap = MeanOverlap()

    def __add__(self, other: "Rouge") -> "Rouge":
        return Rouge(
            self.one + other.one, self.two + other.two, self.longest + other.longest, self.summary + other.summary
        )

    def describe(self) -> str:
        """The F1 scores in per cent."""
        named = {"ROUGE-1": self.one, "ROUGE-2": self.two, "ROUGE-L": self.longest, "ROUGE-Lsum": self.summary}
        return ", ".join(f"{name} {100 * score.f1:.2f}" for name, score in named.items())


def rouge(candidates: Sequence[str], references: Sequence[str | Sequence[str]]) -> Rouge:
    """All ROUGE scores of texts; `references[i]` is the reference of `candidates[i]`, or several."""
    for name, texts in (("candidates", candidates), ("references", references)):
        if isinstance(texts, str):
            raise UserError(f"{name} is one string; give a list of texts")
    if len(candidates) != len(references):
        raise UserError(f"there must be as many candidates ({len(candidates)}) as references ({len(references)})")
    reference_lists = [
        [text_references] if isinstance(text_references, str) else list(text_references)
        for text_references in references
    ]
    return sum(
        (score_rouge(text, text_references) for text, text_references in zip(candidates, reference_lists, strict=True)),
        Rouge(),
    )


def score_rouge(candidate: str, references: Sequence[str]) -> Rouge:
    words, reference_words = words_of(candidate), [words_of(text) for text in references]
    summary = rouge_l_summary(sentences_of(candidate), [sentences_of(text) for text in references])
    scores = (
        rouge_n(words, reference_words, 1),
        rouge_n(words, reference_words, 2),
        rouge_l(words, reference_words),
        summary,
    )
    return Rouge(*(MeanOverlap(score.precision, score.recall, score.f1, 1) for score in scores))


def words_of(text: str) -> list[str]:
    """Split a text into runs of letters and digits, in lower case."""
    return re.findall(r"[^\W_]+", text.lower())


def sentences_of(text: str) -> list[list[str]]:
    """The words of each line."""
    return [words_of(line) for line in text.splitlines()]


def rouge_n(candidate: Words, references: Sequence[Words], n: int) -> Overlap:
    """The overlap of n-grams with the best reference."""
    if n < 1:
        raise UserError(f"n ({n}) must be at least 1")
    grams = count_grams(candidate, n)
    return nearest([overlap(grams, count_grams(reference, n)) for reference in references])


def rouge_l(candidate: Words, references: Sequence[Words]) -> Overlap:
    """The longest common subsequence with the best reference."""
    return nearest(
        [Overlap(common_length(reference, candidate), len(candidate), len(reference)) for reference in references]
    )


def rouge_l_summary(candidate: Sequence[Words], references: Sequence[Sequence[Words]]) -> Overlap:
    """The longest common subsequence at summary level, for lists of sentences."""
    return nearest([summary_overlap(candidate, reference) for reference in references])


def nearest(overlaps: Sequence[Overlap]) -> Overlap:
    if not overlaps:
        raise UserError("a candidate has no reference; give at least one")
    return max(overlaps, key=lambda overlap: overlap.f1)


def count_grams(words: Words, n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def overlap(candidate: Counter[tuple[str, ...]], reference: Counter[tuple[str, ...]]) -> Overlap:
    return Overlap((candidate & reference).total(), candidate.total(), reference.total())


def common_length(reference: Words, candidate: Words) -> int:
    """The length of the longest common subsequence. Neighbours in a column of its table differ by 0 or 1, so a column
    is the bits of one long integer (Hyyro 2004)."""
    positions: dict[str, int] = {}
    for i, word in enumerate(reference):
        positions[word] = positions.get(word, 0) | 1 << i
    all_bits = (1 << len(reference)) - 1
    level = all_bits
    for word in candidate:
        equal = level & positions.get(word, 0)
        level = (level + equal | level - equal) & all_bits
    return len(reference) - level.bit_count()


def summary_overlap(candidate: Sequence[Words], reference: Sequence[Words]) -> Overlap:
    left_in_candidate, left_in_reference = (
        Counter(word for words in summary for word in words) for summary in (candidate, reference)
    )
    size, reference_size, shared = left_in_candidate.total(), left_in_reference.total(), 0
    for sentence in reference:
        places = sorted(set().union(*(common_places(sentence, words) for words in candidate)))
        for word in (sentence[place] for place in places):
            if left_in_candidate[word] and left_in_reference[word]:
                left_in_candidate[word] -= 1
                left_in_reference[word] -= 1
                shared += 1
    return Overlap(shared, size, reference_size)


def common_places(reference: Words, candidate: Words) -> set[int]:
    """The indices of a longest common subsequence in the reference; among several, the one with the latest words."""
    table = [[0] * (len(candidate) + 1)]
    for word in reference:
        above, row = table[-1], [0]
        for j, candidate_word in enumerate(candidate):
            row.append(above[j] + 1 if word == candidate_word else max(above[j + 1], row[j]))
        table.append(row)
    places, i, j = set(), len(reference), len(candidate)
    while i and j:
        if reference[i - 1] == candidate[j - 1]:
            i, j = i - 1, j - 1
            places.add(i)
        elif table[i][j - 1] > table[i - 1][j]:
            j -= 1
        else:
            i -= 1
    return places
