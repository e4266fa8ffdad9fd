"""The documents of a stream in numbered blocks, each of which can be read without those before it: a range of bytes of
a plain text or of JSON lines, some row groups of a Parquet file, and a whole file of any other kind. Knows no tokenizer
and no order of blocks.

A document is a text: a row, a line of JSON, and of a plain text a stretch of at most `PIECE` characters that ends where
a line does.
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
from clew.data.files.encodings import of_beginning
from clew.data.files.folders import ending
from clew.data.files.given_files import check_encoding, given_encoding
from clew.data.files.text_files import PIECE, documents_in, joined_again, read_documents, text_in
from clew.data.files.unpacking import kind_at
from clew.data.formats.json_files import why
from clew.data.formats.table_files import TABLE, Group, file_rows, row_groups, table_columns
from clew.data.lines import no_text
from clew.data.records import find_column

BLOCK = 2**22
"""Bytes of a block, about, where a file can be cut."""
AHEAD = 2**20
"""Bytes in which the end of a line is looked for where a plain text is cut; a longer line is cut at a space."""
SAMPLE = 2000
"""Rows that tell how long the others are."""
PACKED_RATIO = 3.0
"""Characters that a byte of a packed file becomes, as a guess."""
UTF8 = "utf-8-sig"
"""UTF-8 with or without a byte order mark, as `check_encoding` names it."""


class Block(Protocol):
    @property
    def size(self) -> int:
        """Bytes, or another measure that blocks of one stream share."""

    def documents(self) -> Iterator[str]: ...

    def characters(self) -> float:
        """How many characters the documents have, about, without reading more than some megabytes."""


class FileState(NamedTuple):
    """A file as it was when its stream was opened. What changes under a stream would change what a place in it
    means."""

    path: Path
    size: int
    changed: int

    @classmethod
    def of(cls, path: Path) -> "FileState":
        stat = path.stat()
        return cls(path, stat.st_size, stat.st_mtime_ns)

    def check(self) -> None:
        """Refuses a file that is gone or another."""
        try:
            if FileState.of(self.path) == self:
                return
            fault = "it changed after training began"
        except OSError as error:
            fault = f"it can no longer be read ({error.strerror or error})"
        raise UserError(
            f"{self.path}: {fault}; put it back as it was, let no other program write there, and go on by --resume"
        )


@dataclass(frozen=True)
class WholeFile:
    """A file that can only be read from its beginning: packed, an Arrow table, or of another encoding than UTF-8."""

    state: FileState
    field: str

    @property
    def size(self) -> int:
        return self.state.size

    def documents(self) -> Iterator[str]:
        self.state.check()
        for pieces in read_documents(self.state.path, self.field):
            yield from joined_again(pieces)

    def characters(self) -> float:
        if self.size <= BLOCK:
            return float(sum(map(len, self.documents())))
        kind = kind_at(self.state.path)
        return self.size * (1.0 if kind is None or kind in TABLE.kinds else PACKED_RATIO)


@dataclass(frozen=True)
class ByteRange:
    """The lines of a UTF-8 file that begin after `start` and up to `stop`; documents of JSON where a `field` of it is
    named."""

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
            raise no_text(path) from None
        if "\0" in text:
            raise no_text(path)
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
                fault = "" if isinstance(values, dict) else "expected an object ({...})"
            except (ValueError, RecursionError) as error:
                fault = f"this is not JSON: {why(error)}"
            if fault:
                raise UserError(
                    f"{self.place(first, number)}: {fault}; mend it, and go on by --resume where training was under way"
                )
            try:
                document = text_in(values, self.field, "")
            except UserError:  # once more, with a place that takes a while to count
                document = text_in(values, self.field, self.place(first, number))
            yield from documents_in(document)

    def place(self, first: int, number: int) -> str:
        """The file and the line, which are counted only where something is wrong."""
        with open_file(self.state.path) as file:
            before, left = 0, first
            while left > 0 and (chunk := file.read(min(left, 2**20))):
                before += chunk.count(b"\n")
                left -= len(chunk)
        return f"{self.state.path}:{before + number + 1}"

    def characters(self) -> float:
        return float(sum(map(len, self.documents())))


def edge(file: IO[bytes], place: int, size: int, may_cut_lines: bool) -> int:
    """Where the first line after a place begins: what one block ends with, the next begins after. In a plain text of
    very long lines it is behind a space, or at a character."""
    if place == 0 or place >= size:
        return min(place, size)
    file.seek(place - 1)
    if not may_cut_lines:
        return place - 1 + len(file.readline())
    ahead = file.read(AHEAD)
    for separator in (b"\n", b" "):
        if (found := ahead.find(separator)) >= 0:
            return place + found
    return next((place + offset for offset, byte in enumerate(ahead[1:]) if byte & 0xC0 != 0x80), size)


@dataclass(frozen=True)
class RowGroups:
    """Some row groups of a Parquet file, one after the other."""

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
        """A row may be several documents, and the first `SAMPLE` documents stand for all rows."""
        found = [len(document) for document in islice(self.documents(), SAMPLE)]
        return sum(found) * max(self.num_rows / SAMPLE, 1.0)


@dataclass(frozen=True)
class Rest:
    """A block without its first documents, and the share of it that this is."""

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
    """A file in blocks of about `BLOCK` bytes where it can be cut."""
    state, kind = FileState.of(path), kind_at(path)
    if kind == "parquet":
        column = find_column(table_columns(path), field, "text", str(path))
        return [of_groups(state, column, numbers, groups) for numbers, groups in gathered(row_groups(path, column))]
    name = field if ending(path) == ".jsonl" else None
    if kind is not None or not is_plain_utf8(path) or (name is not None and is_array(path)):
        return [WholeFile(state, field)]
    return [ByteRange(state, start, min(start + BLOCK, state.size), name) for start in range(0, state.size, BLOCK)]


def of_groups(state: FileState, column: str, numbers: Sequence[int], groups: Sequence[Group]) -> RowGroups:
    num_rows, size = sum(group.num_rows for group in groups), sum(group.size for group in groups)
    return RowGroups(state, column, tuple(numbers), groups[0].first_row, num_rows, max(size, 1))


def gathered(groups: Sequence[Group]) -> Iterator[tuple[list[int], list[Group]]]:
    """Row groups that follow each other, as many as come to a block; a large one is a block of its own."""
    numbers: list[int] = []
    some: list[Group] = []
    for number, group in enumerate(groups):
        numbers.append(number)
        some.append(group)
        if sum(each.size for each in some) >= BLOCK:
            yield numbers, some
            numbers, some = [], []
    if some:
        yield numbers, some


def is_plain_utf8(path: Path) -> bool:
    """Whether a file can be cut at any newline: it is plain UTF-8, as declared or as its first bytes show."""
    given = given_encoding(path)
    if given is not None:
        return check_encoding(given) == UTF8
    head = beginning_of(path)
    told = of_beginning(head)
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return told is None or told.encoding == UTF8


def is_array(path: Path) -> bool:
    """Whether a file of JSON is one array, as it is read where it is called otherwise."""
    return beginning_of(path).lstrip(codecs.BOM_UTF8 + b" \t\r\n").startswith(b"[")


def beginning_of(path: Path) -> bytes:
    with open_file(path) as file:
        return file.read(PIECE)
