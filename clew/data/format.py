"""A format of data files as one value: how a file of it is told, and what it can be read as. Knows no format by
name."""

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
    """Words with tags, and heads where they are asked for; a column that is None is where the format has it."""

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
    """A format. What a file of it can be read as it has a reader for; a table is read as anything that has columns."""

    about: str
    """What it is called in a sentence."""
    rows: Callable[[Path, bool | None, Notes], Iterator[Row]]
    """`rows(path, header, notes)`: its records, to be described."""
    extensions: tuple[str, ...] = ()
    """How the names of its files end. Where several formats have an ending, the file is looked at."""
    fits: Callable[[Sequence[str]], bool] | None = None
    """Whether the first lines of a file are in it."""
    may_fit_tables: bool = False
    """Whether that may be so of a table."""
    kinds: tuple[str, ...] = ()
    """What `first_bytes` calls its files, where they are not text."""
    records: Reader | None = None
    columns: Callable[[Path], Sequence[str]] | None = None
    """The columns of a file that can be read without the others; `wanted` are then all that its records need."""
    has_lists: bool = False
    """Of a table: its fields may be lists, or have fields themselves."""
    is_single: bool = False
    """Of a table: it has one column."""
    sentences: SentenceReader | None = None
    labelled_trees: Callable[[Path, Column | None, Notes], Iterator[LabelledTree]] | None = None
    """`labelled_trees(path, label, notes)`."""
    dependency_graphs: Callable[[Path, str | None, Notes], Iterator[Sentence]] | None = None
    """`dependency_graphs(path, label, notes)`: sentences with heads; what `label` names is their tags, and None leaves
    these out."""
    questions: Callable[[Path, Notes, bool], Iterator[Question]] | None = None
    """`questions(path, notes, with_answers)`."""
    captions: Callable[[Path, Notes], Iterator[tuple[str, tuple[str, ...], str]]] | None = None
    """`captions(path, notes)`: of every picture the name that the file calls it by, its captions, and where they
    stand."""
    use: Callable[[Columns, Shown], Use | None] | None = None
    """What a file of it is for; told from the columns of a table where not given."""


def table_rows(read: Reader) -> Callable[[Path, bool | None, Notes], Iterator[Row]]:
    """The records of a table of texts."""

    def rows(path: Path, header: bool | None, notes: Notes) -> Iterator[Row]:
        for record in read(path, header=header, notes=notes):
            yield record.place, {name: text_field(value) for name, value in record.values.items()}

    return rows
