"""Divides a stream into blocks of documents, each readable without the blocks before it. Knows no tokenizer and no
order of blocks.

A block is a byte range of a plain-text or JSON Lines file, some row groups of a Parquet file, or a whole file of any
other format. A document is the text of a row or of a JSON line; in plain text it is a stretch of at most `PIECE`
characters that ends where a line ends.
"""

import codecs
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, NamedTuple, Protocol

from clew.core.errors import UserError
from clew.core.files import open_file
from clew.core.wording import argument
from clew.data.files.encodings import detect_encoding
from clew.data.files.folders import ending
from clew.data.files.given_files import check_encoding, given_encoding
from clew.data.files.text_files import PIECE, documents_in, join_pieces, read_documents, text_in
from clew.data.files.unpacking import kind_at
from clew.data.formats.json_files import why
from clew.data.formats.table_files import TABLE, Group, file_rows, row_groups, table_columns
from clew.data.lines import not_text
from clew.data.records import find_column

BLOCK = 2**22
"""Approximate size of a block in bytes, if a file can be cut."""
AHEAD = 2**20
"""Bytes after a cut in a plain text in which the end of the line is searched for; a longer line is cut at a space."""
SAMPLE = 2000
"""Rows that are read to estimate the length of all."""
PACKED_RATIO = 3.0
"""Estimated number of characters per byte of a compressed file."""
UTF8 = "utf-8-sig"
"""UTF-8 with or without a byte order mark, as `check_encoding` names it."""


class Block(Protocol):
    @property
    def size(self) -> int:
        """The size in bytes, or in another unit that all blocks of a stream share."""

    def documents(self) -> Iterator[str]: ...

    def characters(self) -> float:
        """Estimate the number of characters, without reading more than a few megabytes."""


class FileState(NamedTuple):
    """A file's size and modification time when its stream was opened. If the file changes, positions in the stream
    become invalid."""

    path: Path
    size: int
    changed: int

    @classmethod
    def of(cls, path: Path) -> "FileState":
        stat = path.stat()
        return cls(path, stat.st_size, stat.st_mtime_ns)

    def check(self) -> None:
        """Raise if the file has changed or is gone."""
        try:
            if FileState.of(self.path) == self:
                return
            fault = "it changed after training began"
        except OSError as error:
            fault = f"it can no longer be read ({error.strerror or error})"
        raise UserError(
            f"{self.path}: {fault}; restore it, make sure that no other program writes to it, and continue with"
            f" {argument('resume', True)}"
        )


@dataclass(frozen=True)
class WholeFile:
    """A file that can only be read from its beginning: a compressed file, an Arrow table, or a text that is not
    UTF-8."""

    state: FileState
    field: str

    @property
    def size(self) -> int:
        return self.state.size

    def documents(self) -> Iterator[str]:
        self.state.check()
        for pieces in read_documents(self.state.path, self.field):
            yield from join_pieces(pieces)

    def characters(self) -> float:
        if self.size <= BLOCK:
            return float(sum(map(len, self.documents())))
        kind = kind_at(self.state.path)
        return self.size * (1.0 if kind is None or kind in TABLE.kinds else PACKED_RATIO)


@dataclass(frozen=True)
class ByteRange:
    """The lines of a UTF-8 file that begin after byte `start` and up to byte `stop`. With a `field`, lines are JSON."""

    state: FileState
    start: int
    stop: int
    field: str | None = None

    @property
    def size(self) -> int:
        return self.stop - self.start

    def documents(self) -> Iterator[str]:
        self.state.check()
        path = self.state.path
        with open_file(path) as file:
            first, last = (edge(file, place, self.state.size, self.field is None) for place in (self.start, self.stop))
            file.seek(first)
            content = file.read(last - first)
        try:
            text = content.decode("utf-8-sig" if first == 0 else "utf-8")
        except UnicodeDecodeError:
            raise not_text(path) from None
        if "\0" in text:
            raise not_text(path)
        if self.field is None:
            yield from documents_in(text)
        else:
            yield from self.fields(text, first)

    def fields(self, text: str, first: int) -> Iterator[str]:
        assert self.field is not None
        number = 0
        for number, line in enumerate(io.StringIO(text, newline=None)):
            if not line.strip():
                continue
            try:
                values = json.loads(line)
                problem = "" if isinstance(values, dict) else "expected an object ({...})"
            except (ValueError, RecursionError) as error:
                problem = f"this is not JSON: {why(error)}"
            if problem:
                raise UserError(
                    f"{self.place(first, number)}: {problem}; correct the line, and continue with"
                    f" {argument('resume', True)} if training had begun"
                )
            try:
                document = text_in(values, self.field, "")
            except UserError:  # raise again with the line number, which is slow to compute
                document = text_in(values, self.field, self.place(first, number))
            yield from documents_in(document)

    def place(self, first: int, number: int) -> str:
        """Return the path and line number for an error message. Lines are counted only when this is called."""
        with open_file(self.state.path) as file:
            num_lines, num_bytes = 0, first
            while num_bytes > 0 and (chunk := file.read(min(num_bytes, 2**20))):
                num_lines += chunk.count(b"\n")
                num_bytes -= len(chunk)
        return f"{self.state.path}:{num_lines + number + 1}"

    def characters(self) -> float:
        return float(sum(map(len, self.documents())))


def edge(file: IO[bytes], place: int, size: int, may_cut_lines: bool) -> int:
    """Return the byte position where the first line after `place` begins: one block ends there and the next begins.

    With `may_cut_lines`, if the end of the line is too far away, return a position after a space, or else the next
    character boundary.
    """
    if place == 0 or place >= size:
        return min(place, size)
    file.seek(place - 1)
    if not may_cut_lines:
        return place - 1 + len(file.readline())
    ahead = file.read(AHEAD)
    for separator in (b"\n", b" "):
        if (index := ahead.find(separator)) >= 0:
            return place + index
    return next((place + offset for offset, byte in enumerate(ahead[1:]) if byte & 0xC0 != 0x80), size)


@dataclass(frozen=True)
class RowGroups:
    """Consecutive row groups of a Parquet file."""

    state: FileState
    column: str
    numbers: tuple[int, ...]
    first_row: int
    num_rows: int
    size: int

    def documents(self) -> Iterator[str]:
        self.state.check()
        for record in file_rows(self.state.path, [self.column], self.numbers, self.first_row):
            text = text_in(record.values, self.column, record.place)
            yield from documents_in(text)

    def characters(self) -> float:
        """Estimate from the first `SAMPLE` documents; a row may have several."""
        lengths = [len(document) for document in islice(self.documents(), SAMPLE)]
        return sum(lengths) * max(self.num_rows / SAMPLE, 1.0)


@dataclass(frozen=True)
class Rest:
    """A block without its first documents. `share` is the remaining fraction of the block."""

    block: Block
    skipped: int
    share: float = 1.0

    @property
    def size(self) -> int:
        return max(1, round(self.block.size * self.share))

    def documents(self) -> Iterator[str]:
        return islice(self.block.documents(), self.skipped, None)

    def characters(self) -> float:
        return self.block.characters() * self.share


def blocks_of(path: Path, field: str) -> list[Block]:
    """Divide a file into blocks of about `BLOCK` bytes, if it can be cut."""
    state, kind = FileState.of(path), kind_at(path)
    if kind == "parquet":
        column = find_column(table_columns(path), field, "text", str(path))
        blocks = group_blocks(row_groups(path, column))
        return [block_of_groups(state, column, numbers, groups) for numbers, groups in blocks]
    name = field if ending(path) == ".jsonl" else None
    if kind is not None or not is_plain_utf8(path) or (name is not None and is_array(path)):
        return [WholeFile(state, field)]
    return [ByteRange(state, start, min(start + BLOCK, state.size), name) for start in range(0, state.size, BLOCK)]


def block_of_groups(state: FileState, column: str, numbers: Sequence[int], groups: Sequence[Group]) -> RowGroups:
    num_rows, size = sum(group.num_rows for group in groups), sum(group.size for group in groups)
    return RowGroups(state, column, tuple(numbers), groups[0].first_row, num_rows, max(size, 1))


def group_blocks(groups: Sequence[Group]) -> Iterator[tuple[list[int], list[Group]]]:
    """Join consecutive row groups until they reach the size of a block."""
    numbers: list[int] = []
    joined: list[Group] = []
    for number, group in enumerate(groups):
        numbers.append(number)
        joined.append(group)
        if sum(each.size for each in joined) >= BLOCK:
            yield numbers, joined
            numbers, joined = [], []
    if joined:
        yield numbers, joined


def is_plain_utf8(path: Path) -> bool:
    """Return whether a file is plain UTF-8, by its declared encoding or its first bytes. Such a file can be cut at any
    newline."""
    encoding = given_encoding(path)
    if encoding is not None:
        return check_encoding(encoding) == UTF8
    head = beginning_of(path)
    detected = detect_encoding(head)
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return detected is None or detected.encoding == UTF8


def is_array(path: Path) -> bool:
    """Return whether a file holds one JSON array, regardless of its name."""
    return beginning_of(path).lstrip(codecs.BOM_UTF8 + b" \t\r\n").startswith(b"[")


def beginning_of(path: Path) -> bytes:
    with open_file(path) as file:
        return file.read(PIECE)
