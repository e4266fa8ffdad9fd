"""Exact match, edit distances and error rates of strings, and alignment accuracy of attention. Counts add."""

from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from clew.core.errors import UserError


@dataclass(frozen=True)
class Accuracy:
    """Counts of right predictions."""

    right: int = 0
    total: int = 0

    def __add__(self, other: "Accuracy") -> "Accuracy":
        return Accuracy(self.right + other.right, self.total + other.total)

    @property
    def value(self) -> float:
        """Between 0 and 1."""
        if not self.total:
            raise UserError("nothing was counted, so there is no accuracy; give at least one example")
        return self.right / self.total


@dataclass(frozen=True)
class ErrorRate:
    """The number of edits from hypotheses to references, and of units in the references. The rate exceeds 1 with more
    edits than units."""

    edits: int = 0
    total: int = 0

    def __add__(self, other: "ErrorRate") -> "ErrorRate":
        return ErrorRate(self.edits + other.edits, self.total + other.total)

    @property
    def value(self) -> float:
        if not self.total:
            raise UserError("the references are empty, so there is no error rate; give at least one that is not")
        return self.edits / self.total


def exact_match(hypotheses: Sequence[Sequence[Hashable]], references: Sequence[Sequence[Hashable]]) -> Accuracy:
    """How many hypotheses, strings or lists, equal their references."""
    check_pairs(hypotheses, references)
    return Accuracy(sum(a == b for a, b in zip(hypotheses, references, strict=True)), len(references))


def word_error_rate(hypotheses: Sequence[str], references: Sequence[str]) -> ErrorRate:
    """Edits of words, split at white space."""
    check_pairs(hypotheses, references)
    return error_rate([text.split() for text in hypotheses], [text.split() for text in references])


def character_error_rate(hypotheses: Sequence[str], references: Sequence[str]) -> ErrorRate:
    """Edits of characters, including spaces."""
    check_pairs(hypotheses, references)
    return error_rate(hypotheses, references)


def error_rate(hypotheses: Sequence[Sequence[Hashable]], references: Sequence[Sequence[Hashable]]) -> ErrorRate:
    check_pairs(hypotheses, references)
    edits = sum(edit_distance(a, b) for a, b in zip(hypotheses, references, strict=True))
    return ErrorRate(edits, sum(map(len, references)))


def edit_distance(a: Sequence[Hashable], b: Sequence[Hashable]) -> int:
    """The smallest number of insertions, deletions and substitutions between two sequences (Levenshtein 1966).

    d[i, j] = min(d[i-1, j] + 1, d[i, j-1] + 1, d[i-1, j-1] + (a[i] != b[j]))
    """
    if len(a) < len(b):
        a, b = b, a
    (last,) = deque(edit_columns(a, b), maxlen=1)
    return len(b) + last.rises.bit_count() - last.falls.bit_count()


class Column(NamedTuple):
    """The rows where d[i, j] - d[i-1, j] is 1, and where it is -1, as bits: bit i - 1 is that of a[i]."""

    rises: int
    falls: int


def edit_columns(a: Sequence[Hashable], b: Sequence[Hashable]) -> Iterator[Column]:
    """Every column of the table of edit distances, j = 0 to len(b).

    Neighbours differ by -1, 0 or 1, so a column is two sets of rows, where it rises and where it falls. A set is the
    bits of one long integer, so a column takes a few integer operations (Myers 1999, in the form of Hyyro 2003).
    """
    bits_of: dict[Hashable, int] = {}
    for i, unit in enumerate(a):
        bits_of[unit] = bits_of.get(unit, 0) | 1 << i
    all_bits = (1 << len(a)) - 1
    rises, falls = all_bits, 0
    yield Column(rises, falls)
    for unit in b:
        equal = bits_of.get(unit, 0)
        level = (((equal & rises) + rises) ^ rises | equal | falls) & all_bits  # d[i, j] = d[i-1, j-1]
        right_rises = falls | all_bits & ~(level | rises)  # d[i, j] = d[i, j-1] + 1
        right_falls = level & rises
        right_rises = (right_rises << 1 | 1) & all_bits
        rises = (right_falls << 1 | ~(level | right_rises)) & all_bits
        falls = right_rises & level
        yield Column(rises, falls)


def alignment_accuracy(weights: Tensor, places: Tensor, mask: Tensor | None = None) -> Accuracy:
    """At how many steps the largest attention weight (batch, query, key) is on the right key, `places` (batch, query).
    Ties go to the first.

    Steps without a right key have -1; `mask` (batch, query) is True at real steps.
    """
    if weights.dim() != 3 or places.shape != weights.shape[:2]:
        raise UserError(
            f"places {tuple(places.shape)} must be (batch, query) for weights {tuple(weights.shape)} of (batch, query,"
            " key); use one head, or the mean over heads"
        )
    counted = places >= 0 if mask is None else (places >= 0) & mask
    right = (weights.argmax(-1) == places) & counted
    return Accuracy(int(right.sum()), int(counted.sum()))


def check_pairs(hypotheses: Sequence[object], references: Sequence[object]) -> None:
    for name, texts in (("hypotheses", hypotheses), ("references", references)):
        if isinstance(texts, str):
            raise UserError(f"{name} is one string; give a list of them")
    if len(hypotheses) != len(references):
        raise UserError(f"there must be as many hypotheses ({len(hypotheses)}) as references ({len(references)})")
