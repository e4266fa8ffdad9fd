"""A data file format as one value: how it is detected, and what it can be read as. Knows no format by name."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from clew.data.described import Columns, Row, Shown, Use, text_field
from clew.data.examples import LabelledTree, Question, Sentence
from clew.data.notes import Notes
from clew.data.records import Column, Record

Reader = Callable[..., Iterator[Record]]
"""Records with named columns: `reader(path, *, header, wanted, notes)`."""


class SentenceReader(Protocol):
    """Reads words with tags, and with heads on request. A column that is None is found where the format has it."""

    def __call__(
        self,
        path: Path,
        *,
        words: Column | None,
        tags: Column | None,
        heads: Column | None,
        relations: Column | None,
        with_tags: bool,
        with_heads: bool,
        notes: Notes,
    ) -> Iterator[Sentence]: ...


@dataclass(frozen=True)
class Format:
    """A file format, with a reader for each kind of data it can hold. A table is read as anything that has columns."""

    about: str
    """Its name in messages."""
    rows: Callable[[Path, bool | None, Notes], Iterator[Row]]
    """`rows(path, header, notes)`: the records, as a description counts them."""
    extensions: tuple[str, ...] = ()
    """The endings of its file names. If several formats share an ending, the content of the file decides."""
    fits: Callable[[Sequence[str]], bool] | None = None
    """Whether the first lines of a file are in this format."""
    may_fit_tables: bool = False
    """Whether `fits` may be True for a table."""
    kinds: tuple[str, ...] = ()
    """The kinds that `first_bytes` finds its files to be, if they are not text."""
    records: Reader | None = None
    columns: Callable[[Path], Sequence[str]] | None = None
    """The columns of a file, if they can be read separately; `wanted` then lists all that its records need."""
    has_lists: bool = False
    """For a table: its fields may be lists, or have nested fields."""
    is_single: bool = False
    """For a table: it has one column."""
    sentences: SentenceReader | None = None
    labelled_trees: Callable[[Path, Column | None, Notes], Iterator[LabelledTree]] | None = None
    """`labelled_trees(path, label, notes)`."""
    dependency_graphs: Callable[[Path, str | None, Notes], Iterator[Sentence]] | None = None
    """`dependency_graphs(path, label, notes)`: sentences with heads; their tags come from what `label` names, and None
    gives no tags."""
    questions: Callable[[Path, Notes, bool], Iterator[Question]] | None = None
    """`questions(path, notes, with_answers)`."""
    captions: Callable[[Path, Notes], Iterator[tuple[str, tuple[str, ...], str]]] | None = None
    """`captions(path, notes)`: for every picture, its name in the file, its captions, and their place."""
    use: Callable[[Columns, Shown], Use | None] | None = None
    """What a file of this format is for; by default this is guessed from the columns of a table."""


def text_table_rows(read: Reader) -> Callable[[Path, bool | None, Notes], Iterator[Row]]:
    """Return the `rows` of a table of texts."""

    def rows(path: Path, header: bool | None, notes: Notes) -> Iterator[Row]:
        for record in read(path, header=header, notes=notes):
            yield record.place, {name: text_field(value) for name, value in record.values.items()}

    return rows
