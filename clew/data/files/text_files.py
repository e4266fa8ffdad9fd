"""Plain text of any size, from files or a string, read in pieces. Knows no tokenizer.

A file is opened as every text is (`lines`). It is a document, but of a file of JSON lines (.jsonl) every line is one,
and of a table (Parquet, Arrow) every row, its field `text` unless another is named.
"""

import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TextIO

from clew.core.errors import UserError
from clew.data.files.extents import Extent, extent_of
from clew.data.files.folders import ending, files_at
from clew.data.files.given_files import at_home, given_encoding
from clew.data.files.unpacking import kind_at
from clew.data.formats.json_files import read_jsonl, value_at
from clew.data.formats.table_files import TABLE, files_of, is_folder_of_tables, read_table, table_columns
from clew.data.lines import no_text, opened
from clew.data.records import find_column
from clew.text.tokenizer import check_is_text

PIECE = 2**16
ENDINGS = (".txt", ".jsonl")
"""Of the files that are read of a folder; a .gz may follow."""
FIELD = "text"
"""Of JSON lines, where no other is named."""


class Piece(NamedTuple):
    """A stretch of a text; `closes` says that a document ends with it and another follows."""

    text: str
    closes: bool = False

    @property
    def mark(self) -> bytes:
        return b"\xff" if self.closes else b""


class TextSource(Protocol):
    """A text that can be read again and again, in pieces cut at line ends; iterating gives their strings, and `str`
    says which it is."""

    def pieces(self) -> Iterator[Piece]: ...

    def __iter__(self) -> Iterator[str]: ...


class Stamp(NamedTuple):
    """What tells a text of files from what it was before without reading it: the names, sizes and times of change, as a
    text."""

    text: str
    size: int  # in bytes
    changed: float  # when a file last was


@dataclass(frozen=True)
class TextFiles:
    """The documents of the files one after the other."""

    paths: tuple[Path, ...]
    field: str = FIELD

    def pieces(self) -> Iterator[Piece]:
        piece = None
        for piece in pieces_of(document for path in self.paths for document in read_documents(path, self.field)):
            yield piece
        if piece is None:
            raise UserError(f"{self}: nothing is left to read, though there was; let no other program write there")

    def __iter__(self) -> Iterator[str]:
        return (piece.text for piece in self.pieces())

    def stamp(self) -> Stamp | None:
        try:
            found = [(str(path.absolute()), path.stat()) for path in self.paths]
        except OSError:
            return None
        rows = [(name, stat.st_size, stat.st_mtime_ns) for name, stat in found]
        encodings = sorted({encoding for path in self.paths if (encoding := given_encoding(path)) is not None})
        how = ("" if self.field == FIELD else self.field) + (json.dumps(encodings) if encodings else "")
        return Stamp(json.dumps(rows) + how, sum(size for _, size, _ in rows), max(stat.st_mtime for _, stat in found))

    def __str__(self) -> str:
        more = len(self.paths) - 1
        return f"{self.paths[0]} and {more} more" if more else str(self.paths[0])


@dataclass(frozen=True)
class TextString:
    """A text that is in memory already."""

    text: str

    def __post_init__(self) -> None:
        check_is_text(self.text, "text")

    def pieces(self) -> Iterator[Piece]:
        return (Piece(text) for text in cut(io.StringIO(self.text, newline=None)))

    def __iter__(self) -> Iterator[str]:
        return (piece.text for piece in self.pieces())

    def __str__(self) -> str:
        return "the text"


@dataclass(frozen=True, eq=False)
class TextDocuments:
    """Documents that are in memory already."""

    documents: tuple[str, ...]
    name: str

    def pieces(self) -> Iterator[Piece]:
        return pieces_of([document] for document in self.documents)

    def __iter__(self) -> Iterator[str]:
        return (piece.text for piece in self.pieces())

    def __str__(self) -> str:
        return self.name


def pieces_of(documents: Iterable[Iterable[str]]) -> Iterator[Piece]:
    """The pieces of documents one after the other, each document but the last closed."""
    held: Piece | None = None
    for document in documents:
        for number, text in enumerate(document):
            if held is not None:
                yield closed(held) if number == 0 else held
            held = Piece(text)
    if held is not None:
        yield held


def text_lines(source: TextSource) -> Iterator[str]:
    """The lines of a text, wherever it is cut into pieces."""
    left = ""
    for piece in source:
        *lines, left = (left + piece).split("\n")
        yield from lines
    yield left


def measure(source: TextSource) -> Extent:
    """It does not depend on how the text is cut into pieces."""
    return extent_of(source.pieces())


def beginning(pieces: Iterable[str], characters: int) -> str:
    """The first so many characters of a text that comes in pieces, or as many as there are; no piece more is read."""
    found, length = [], 0
    for piece in pieces:
        found.append(piece)
        length += len(piece)
        if length >= characters:
            break
    return "".join(found)[:characters]


def find_text(paths: Path | str | Sequence[Path | str], field: str = FIELD) -> TextFiles:
    """The text in a file, in the .txt and .jsonl files under a folder in the order of their names, or in several of
    these."""
    if isinstance(paths, (Path, str)):
        paths = [paths]
    return TextFiles(tuple(file for path in paths for file in files_in(at_home(path), field)), field)


def files_in(path: Path, field: str) -> list[Path]:
    """The files of a path with text in them."""
    return files_of(path) if is_folder_of_tables(path) else files_at(path, ENDINGS, lambda file: has_text(file, field))


def has_text(path: Path, field: str) -> bool:
    return any(text for document in read_documents(path, field) for text in document)


def read_documents(path: Path, field: str) -> Iterator[Iterator[str]]:
    """The pieces of each document in a file."""
    if kind_at(path) in TABLE.kinds:
        records = read_table(path, wanted=[find_column(table_columns(path), field, "text", str(path))])
    elif ending(path) != ".jsonl" or not path.is_file() or not path.stat().st_size:
        yield read_pieces(path)
        return
    else:
        records = read_jsonl(path)
    for record in records:
        text = text_in(record.values, field, record.place)
        if text.strip():
            yield cut(io.StringIO(text, newline=None))


def text_in(values: Mapping[str, Any], field: str, place: str) -> str:
    """The text in a field of a record."""
    try:
        text = value_at(values, field)
    except KeyError:
        text = None
    if not isinstance(text, str):
        kind = "is no string" if field in values else "is missing"
        raise UserError(
            f'{place}: a document a line is read of the field "{field}", which {kind}; there are: {", ".join(values)}; '
            'write {"text": "..."}, or name the field to train on with data.text=NAME'
        )
    check_is_text(text, f"text in {place}")
    return text


def read_pieces(path: Path) -> Iterator[str]:
    """A file's text; whatever is against reading it is said of that file."""
    if not path.is_file():
        raise UserError(f"{path}: there is no file any more; put it back and let no other program write there")
    with opened(path) as stream:
        for text in cut(stream):
            if "\0" in text:
                raise no_text(path)
            yield text


def documents_in(text: str) -> Iterator[str]:
    """A text as a document of a stream, or as several where it has more than `PIECE` characters."""
    return joined_again(cut(io.StringIO(text, newline=None)))


def joined_again(pieces: Iterable[str]) -> Iterator[str]:
    """The pieces of a text put together as long as they have no more than `PIECE` characters, without those that are
    blank: `cut` parts the last words from the others, and in a stream a piece is a document."""
    held = ""
    for piece in pieces:
        if held and len(held) + len(piece) > PIECE:
            yield held
            held = ""
        held += "" if not held and piece.isspace() else piece
    if held:
        yield held


def cut(stream: TextIO) -> Iterator[str]:
    """Pieces that end where a line does; in a longer line, before a space; failing that, anywhere."""
    rest = ""
    while chunk := stream.read(PIECE):
        rest += chunk
        end = rest.rfind("\n") + 1 or max(rest.rfind(" "), 0) or len(rest)
        yield rest[:end]
        rest = rest[end:]
    if rest:
        yield rest


def closed(piece: Piece) -> Piece:
    """The end of a document, on a line of its own, so that words of two files never run together."""
    return Piece(piece.text if piece.text.endswith("\n") else piece.text + "\n", closes=True)
