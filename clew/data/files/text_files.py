"""Plain text of any size, from files or a string, read in pieces. Knows no tokenizer.

A file is opened as `lines` describes. A plain text file is one document. In JSON lines (.jsonl) every line is a
document, in a table (Parquet, Arrow) every row; the document is the field `text` by default.
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
from clew.data.files.given_files import expand_home, given_encoding
from clew.data.files.unpacking import kind_at
from clew.data.formats.json_files import read_jsonl, value_at
from clew.data.formats.table_files import TABLE, files_of, is_folder_of_tables, read_table, table_columns
from clew.data.lines import not_text, open_decoded
from clew.data.records import find_column
from clew.text.tokenizer import check_is_text

PIECE = 2**16
ENDINGS = (".txt", ".jsonl")
"""File name endings that are read in a folder; a .gz may follow."""
FIELD = "text"
"""The default field of JSON lines."""


class Piece(NamedTuple):
    """A stretch of a text; `closes` means that a document ends with it and another follows."""

    text: str
    closes: bool = False

    @property
    def mark(self) -> bytes:
        return b"\xff" if self.closes else b""


class TextSource(Protocol):
    """A text that can be read repeatedly, in pieces cut at line ends. Iterating yields the strings of the pieces; `str`
    names the text in messages."""

    def pieces(self) -> Iterator[Piece]: ...

    def __iter__(self) -> Iterator[str]: ...


class Stamp(NamedTuple):
    """Shows whether the files of a text have changed, without reading them: `text` has their names, sizes and
    modification times."""

    text: str
    size: int  # in bytes
    changed: float  # the latest modification time


@dataclass(frozen=True)
class TextFiles:
    """The documents of files, one file after another."""

    paths: tuple[Path, ...]
    field: str = FIELD

    def pieces(self) -> Iterator[Piece]:
        piece = None
        for piece in document_pieces(document for path in self.paths for document in read_documents(path, self.field)):
            yield piece
        if piece is None:
            raise UserError(f"{self}: the text is gone since it was first read; let no other program write to the file")

    def __iter__(self) -> Iterator[str]:
        return (piece.text for piece in self.pieces())

    def stamp(self) -> Stamp | None:
        try:
            files = [(str(path.absolute()), path.stat()) for path in self.paths]
        except OSError:
            return None
        rows = [(name, stat.st_size, stat.st_mtime_ns) for name, stat in files]
        encodings = sorted({encoding for path in self.paths if (encoding := given_encoding(path)) is not None})
        options = ("" if self.field == FIELD else self.field) + (json.dumps(encodings) if encodings else "")
        return Stamp(
            json.dumps(rows) + options, sum(size for _, size, _ in rows), max(stat.st_mtime for _, stat in files)
        )

    def __str__(self) -> str:
        num_more = len(self.paths) - 1
        return f"{self.paths[0]} and {num_more} more" if num_more else str(self.paths[0])


@dataclass(frozen=True)
class TextString:
    """A text in memory."""

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
    """Documents in memory."""

    documents: tuple[str, ...]
    name: str

    def pieces(self) -> Iterator[Piece]:
        return document_pieces([document] for document in self.documents)

    def __iter__(self) -> Iterator[str]:
        return (piece.text for piece in self.pieces())

    def __str__(self) -> str:
        return self.name


def document_pieces(documents: Iterable[Iterable[str]]) -> Iterator[Piece]:
    """Yield the pieces of documents in order, and close every document but the last."""
    previous: Piece | None = None
    for document in documents:
        for number, text in enumerate(document):
            if previous is not None:
                yield close_document(previous) if number == 0 else previous
            previous = Piece(text)
    if previous is not None:
        yield previous


def text_lines(source: TextSource) -> Iterator[str]:
    """Yield the lines of a text, wherever it is cut into pieces."""
    rest = ""
    for piece in source:
        *lines, rest = (rest + piece).split("\n")
        yield from lines
    yield rest


def measure_text(source: TextSource) -> Extent:
    """Return the extent of a text, which does not depend on how the text is cut into pieces."""
    return extent_of(source.pieces())


def beginning(pieces: Iterable[str], characters: int) -> str:
    """Return at most the first `characters` characters of a text in pieces, reading no more pieces than needed."""
    start, length = [], 0
    for piece in pieces:
        start.append(piece)
        length += len(piece)
        if length >= characters:
            break
    return "".join(start)[:characters]


def find_text(paths: Path | str | Sequence[Path | str], field: str = FIELD) -> TextFiles:
    """Return the text of one or several paths. A path is a file, or a folder whose .txt and .jsonl files are read in
    the order of their names."""
    if isinstance(paths, (Path, str)):
        paths = [paths]
    return TextFiles(tuple(file for path in paths for file in files_in(expand_home(path), field)), field)


def files_in(path: Path, field: str) -> list[Path]:
    """Return the non-empty files of a path."""
    return files_of(path) if is_folder_of_tables(path) else files_at(path, ENDINGS, lambda file: has_text(file, field))


def has_text(path: Path, field: str) -> bool:
    return any(text for document in read_documents(path, field) for text in document)


def read_documents(path: Path, field: str) -> Iterator[Iterator[str]]:
    """Yield the documents in a file, each as its pieces."""
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
    """Return the text in a field of a record."""
    try:
        text = value_at(values, field)
    except KeyError:
        text = None
    if not isinstance(text, str):
        problem = "is not a string" if field in values else "is missing"
        raise UserError(
            f'{place}: the document is read from the field "{field}", which {problem}; the fields are:'
            f' {", ".join(values)}; write {{"text": "..."}}, or name the field to train on with data.text=NAME'
        )
    check_is_text(text, f"text in {place}")
    return text


def read_pieces(path: Path) -> Iterator[str]:
    """Yield the pieces of a file's text; every error names the file."""
    if not path.is_file():
        raise UserError(f"{path}: the file no longer exists; restore it and let no other program write there")
    with open_decoded(path) as stream:
        for text in cut(stream):
            if "\0" in text:
                raise not_text(path)
            yield text


def documents_in(text: str) -> Iterator[str]:
    """Cut a text into documents of a stream, each of at most `PIECE` characters."""
    return join_pieces(cut(io.StringIO(text, newline=None)))


def join_pieces(pieces: Iterable[str]) -> Iterator[str]:
    """Join the pieces of a text up to `PIECE` characters and drop blank ones. `cut` separates the last words from the
    others, which matters in a stream, where a piece is a document."""
    joined = ""
    for piece in pieces:
        if joined and len(joined) + len(piece) > PIECE:
            yield joined
            joined = ""
        joined += "" if not joined and piece.isspace() else piece
    if joined:
        yield joined


def cut(stream: TextIO) -> Iterator[str]:
    """Yield pieces that end at a line end; within a longer line before a space; if there is none, anywhere."""
    rest = ""
    while chunk := stream.read(PIECE):
        rest += chunk
        end = rest.rfind("\n") + 1 or max(rest.rfind(" "), 0) or len(rest)
        yield rest[:end]
        rest = rest[end:]
    if rest:
        yield rest


def close_document(piece: Piece) -> Piece:
    """Mark the last piece of a document, and end it with a newline so that words of two files never run together."""
    return Piece(piece.text if piece.text.endswith("\n") else piece.text + "\n", closes=True)
