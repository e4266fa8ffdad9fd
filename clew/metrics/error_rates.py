"""Word and character error rates, with counts of substitutions, deletions and insertions that add."""

from collections.abc import Hashable, Sequence
from dataclasses import astuple, dataclass
from typing import Literal, NamedTuple

from clew.core.errors import UserError, counted
from clew.core.memory import check_memory
from clew.metrics.bootstrap import SAMPLES, Interval
from clew.metrics.statistics import Row, metric_interval, score
from clew.metrics.strings import check_pairs, edit_columns

Kind = Literal["hit", "substitution", "deletion", "insertion"]


class Edit(NamedTuple):
    """One step of an alignment, with the unit's index in the reference and in the hypothesis; None on the side that has
    no unit."""

    kind: Kind
    reference: int | None
    hypothesis: int | None


@dataclass(frozen=True)
class Errors:
    """The edits from references to hypotheses, over any number of sentences.

    rate = (substitutions + deletions + insertions) / units,    units = hits + substitutions + deletions

    Units are the references' words or characters. If there are none, the rate is 1 with insertions and 0 without.
    """

    substitutions: int = 0
    deletions: int = 0
    insertions: int = 0
    hits: int = 0

    def __add__(self, other: "Errors") -> "Errors":
        return Errors(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))

    @property
    def units(self) -> int:
        return self.hits + self.substitutions + self.deletions

    @property
    def edits(self) -> int:
        return self.substitutions + self.deletions + self.insertions

    @property
    def rate(self) -> float:
        """At least 0; above 1 if there are more edits than units."""
        return score("error_rate", [self.row]) / 100

    @property
    def row(self) -> Row:
        """The statistics of the formula `error_rate`."""
        return [self.substitutions, self.deletions, self.insertions, self.units]

    def describe(self, unit: str) -> str:
        parts = f"{self.substitutions:,} substituted, {self.deletions:,} deleted, {self.insertions:,} inserted"
        return f"{parts} of {counted(self.units, unit)}"


def align(reference: Sequence[Hashable], hypothesis: Sequence[Hashable]) -> list[Edit]:
    """The smallest set of edits from the reference to the hypothesis (Levenshtein 1966), in order.

    Ties are broken as in RapidFuzz, and so in jiwer: common prefixes and suffixes are hits; then, from the end of the
    rest to its beginning, a deletion is taken if possible, else an insertion if the column before falls there, else a
    hit or a substitution.
    """
    start, stop = common_ends(reference, hypothesis)
    reference_units, hypothesis_units = (
        reference[start : len(reference) - stop],
        hypothesis[start : len(hypothesis) - stop],
    )
    check_memory(
        len(reference_units) * len(hypothesis_units) // 4,
        f"an alignment of {len(reference_units):,} units with {len(hypothesis_units):,}",
        "cut the texts into sentences",
    )
    columns = list(edit_columns(reference_units, hypothesis_units))
    middle: list[Edit] = []
    i, j = len(reference_units), len(hypothesis_units)
    while i and j:
        if columns[j].rises >> (i - 1) & 1:
            i -= 1
            middle.append(Edit("deletion", start + i, None))
        elif j > 1 and columns[j - 1].falls >> (i - 1) & 1:
            j -= 1
            middle.append(Edit("insertion", None, start + j))
        else:
            i, j = i - 1, j - 1
            middle.append(
                Edit("hit" if reference_units[i] == hypothesis_units[j] else "substitution", start + i, start + j)
            )
    middle += [Edit("deletion", start + place, None) for place in reversed(range(i))]
    middle += [Edit("insertion", None, start + place) for place in reversed(range(j))]
    first = [Edit("hit", place, place) for place in range(start)]
    last = [Edit("hit", len(reference) - place, len(hypothesis) - place) for place in range(stop, 0, -1)]
    return [*first, *reversed(middle), *last]


def common_ends(a: Sequence[Hashable], b: Sequence[Hashable]) -> tuple[int, int]:
    """The lengths of the common prefix and of the common suffix of what follows it."""
    most = min(len(a), len(b))
    start = next((place for place in range(most) if a[place] != b[place]), most)
    stop = next((place for place in range(most - start) if a[-1 - place] != b[-1 - place]), most - start)
    return start, stop


def count_errors(hypothesis: Sequence[Hashable], reference: Sequence[Hashable]) -> Errors:
    """The edits of one sentence, given as units."""
    kinds = [edit.kind for edit in align(reference, hypothesis)]
    return Errors(kinds.count("substitution"), kinds.count("deletion"), kinds.count("insertion"), kinds.count("hit"))


def word_errors(hypotheses: Sequence[str], references: Sequence[str]) -> list[Errors]:
    """The errors of each sentence in words, split at white space. `sum(..., Errors())` is the corpus's."""
    check_pairs(hypotheses, references)
    return [count_errors(text.split(), target.split()) for text, target in zip(hypotheses, references, strict=True)]


def character_errors(hypotheses: Sequence[str], references: Sequence[str]) -> list[Errors]:
    """The errors of each sentence in characters. Runs of white space are one space; leading and trailing white space is
    ignored."""
    check_pairs(hypotheses, references)
    return [count_errors(" ".join(a.split()), " ".join(b.split())) for a, b in zip(hypotheses, references, strict=True)]


def error_interval(errors: Sequence[Errors], *, level: float = 0.95, samples: int = SAMPLES, seed: int = 1) -> Interval:
    """The bootstrap interval of the error rate of all sentences together."""
    if not errors:
        raise UserError("the bootstrap needs at least one example")
    return metric_interval(
        "error_rate", [sentence.row for sentence in errors], level=level, samples=samples, seed=seed
    ).times(0.01)
