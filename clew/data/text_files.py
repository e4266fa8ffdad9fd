"""Plain text of any size, from files or a string, read in pieces. Knows no tokenizer.

The text is UTF-8; a byte order mark is dropped, every line end is read as a newline, and what ends in .gz is unzipped.
"""

import hashlib
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol, TextIO

from clew.core.errors import UserError
from clew.data.lines import near, opened

PIECE = 2**16


class Piece(NamedTuple):
    """A stretch of a text; `closes` says that a document ends with it and another follows."""

    text: str
    closes: bool = False


class TextSource(Protocol):
    """A text that can be read again and again, in pieces cut at line ends; iterating gives their strings."""

    def pieces(self) -> Iterator[Piece]: ...

    def __iter__(self) -> Iterator[str]: ...


@dataclass(frozen=True)
class TextFiles:
    """The files one after the other, each a document."""

    paths: tuple[Path, ...]

    def pieces(self) -> Iterator[Piece]:
        held: Piece | None = None
        for path in self.paths:
            for i, text in enumerate(read_pieces(path)):
                if held is not None:
                    yield closed(held) if i == 0 else held
                held = Piece(text)
        if held is not None:
            yield held

    def __iter__(self) -> Iterator[str]:
        return (piece.text for piece in self.pieces())


@dataclass(frozen=True)
class TextString:
    """A text that is in memory already."""

    text: str

    def pieces(self) -> Iterator[Piece]:
        return (Piece(text) for text in cut(io.StringIO(self.text, newline=None)))

    def __iter__(self) -> Iterator[str]:
        return (piece.text for piece in self.pieces())


class Measure(NamedTuple):
    num_characters: int
    digest: str


def measure(source: TextSource) -> Measure:
    """How long a text is and its SHA-256, which does not depend on how it is cut into pieces or files named."""
    num_characters = 0
    digest = hashlib.sha256()
    for piece in source.pieces():
        num_characters += len(piece.text)
        digest.update(piece.text.encode())
        if piece.closes:
            digest.update(b"\xff")  # no byte of UTF-8
    return Measure(num_characters, digest.hexdigest())


def find_text(paths: Path | str | Sequence[Path | str]) -> TextFiles:
    """The text in a file, in the .txt files under a folder in the order of their names, or in several of these."""
    if isinstance(paths, (Path, str)):
        paths = [paths]
    return TextFiles(tuple(file for path in paths for file in files_at(Path(path).expanduser())))


def files_at(path: Path) -> list[Path]:
    if path.is_file():
        if not any(read_pieces(path)):
            raise UserError(f"{path}: the file is empty; give one with text in it")
        return [path]
    if not path.is_dir():
        raise UserError(f"no such file: {path}; {near(path)}")
    named = sorted(file for file in path.rglob("*.txt") if file.is_file() and not file.name.startswith("."))
    found = [file for file in named if any(read_pieces(file))]
    if not found:
        raise UserError(f"{path}: no .txt file with text in this folder or below; name a file, or rename what holds the text to .txt")
    return found


def read_pieces(path: Path) -> Iterator[str]:
    with opened(path) as stream:
        yield from cut(stream)


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
