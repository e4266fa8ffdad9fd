"""The description of a data file: a field of a record, a column over all records, and what the file can be used for.
Knows no format."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Field(NamedTuple):
    """A value as text, its number of words, and the labels it may contain."""

    text: str
    num_words: int
    labels: Iterable[str]
    is_list: bool = False
    is_comment: bool = False


Row = tuple[str, dict[str, Field]]
"""The place of a record, and its fields by column."""
Shown = Sequence[tuple[str, Mapping[str, str]]]
"""Example records: the place of each, and its texts by column."""


def text_field(text: str) -> Field:
    return Field(text, len(text.split()), (text.strip(),))


@dataclass(frozen=True)
class Distribution:
    mean: float
    median: float
    percentile_95: float
    max: float

    def __str__(self) -> str:
        return f"mean {self.mean:.1f}, median {self.median:g}, 95 % {self.percentile_95:g}, max {self.max:g}"


@dataclass(frozen=True)
class ColumnDescription:
    """One column. `labels` counts its values if they are few and repeat; in CoNLL files those of every word, in trees
    those of every phrase. `is_list` says that each record has a list of strings, `is_blank` that every word has `_`,
    and `is_comment` that this is not a column but a comment on a whole sentence."""

    name: str
    num_empty: int
    num_different: int
    words: Distribution
    characters: Distribution
    labels: Mapping[str, int] | None
    is_list: bool = False
    is_blank: bool = False
    is_comment: bool = False
    is_score: bool = False
    """Every value is a number, and some have a fraction: 2.75 is not a class."""


Columns = Sequence[ColumnDescription]


class Use(NamedTuple):
    """A recipe, its settings by name, and other columns that could be the label."""

    recipe: str
    settings: dict[str, str]
    other_labels: tuple[str, ...] = ()

    @property
    def has_two_texts(self) -> bool:
        return self.recipe == "translate" or not {"data.target", "data.second"}.isdisjoint(self.settings)


def is_of_numbers(examples: Shown, name: str) -> bool:
    """Whether the examples have more digits than letters in a column."""
    text = "".join(fields.get(name, "") for _, fields in examples)
    return sum(map(str.isdigit, text)) > sum(map(str.isalpha, text))
