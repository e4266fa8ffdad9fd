"""Texts of any size, read in windows of documents whose order is a function of (seed, epoch). Holds one window in
memory and knows no tokenizer.

A stream is a sequence of blocks. An epoch reads the blocks in an order drawn from (seed, epoch) and cuts their
documents into windows. The documents of a window are shuffled by (seed, epoch, window number). The number of batches in
a window is known only after encoding, so (epoch, batch) does not determine where to read. A `Place` does: it gives the
window's first document by block. A checkpoint stores it as a few numbers, and resuming reads that window again, but
nothing before it.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from clew.core.errors import UserError, counted
from clew.core.files import open_file
from clew.data.files.text_files import Piece, TextDocuments, TextSource, document_pieces, find_text
from clew.data.streams.blocks import Block, Rest, blocks_of
from clew.data.streams.iterables import PREFIX, blocks_of_iterable

MOST_CHARACTERS = 2**23
"""A window ends after this many characters, regardless of `data.shuffle_window`, so that long documents do not use more
memory."""
MOST_HELD_OUT = 2**20
"""The most characters of a held-out split."""
FINGERPRINT_BYTES = 4096
"""Bytes at both ends of a file that identify it."""
FINGERPRINT_TEXTS = 100
"""The number of first texts that identify an iterable."""


class Place(NamedTuple):
    """Where a window begins.

    `window` is its number in the epoch and `batch` the number of its first batch in the epoch. Its first document is
    number `document` of the block at index `block` in the epoch's order.
    """

    window: int = 0
    batch: int = 0
    block: int = 0
    document: int = 0


@dataclass
class Window:
    number: int
    block: int
    document: int
    documents: list[str]
    next: tuple[int, int]
    """The block and the document where the next window begins."""


@dataclass(frozen=True, eq=False)
class TextStream:
    """A text that is read in windows. As a `TextSource`, it yields its documents in the order of the files."""

    blocks: Sequence[Block]
    name: str
    facts: Mapping[str, Any]
    """Values that identify the stream."""
    described: str
    """The same in words."""
    shuffle_window: int
    notes: list[str] = field(default_factory=list)
    """Messages for the user."""

    def pieces(self) -> Iterator[Piece]:
        return document_pieces([document] for block in self.blocks for document in block.documents())

    def __iter__(self) -> Iterator[str]:
        return (piece.text for piece in self.pieces())

    def __str__(self) -> str:
        return self.name

    def beginning(self, characters: int) -> TextDocuments:
        """Return the first documents, with about this many characters."""
        return TextDocuments(tuple(self.first_documents(characters)), f"the beginning of {self.name}")

    def first_documents(self, characters: float) -> Iterator[str]:
        length = 0
        for block in self.blocks:
            for document in block.documents():
                length += len(document)
                yield document
                if length >= characters:
                    return

    def characters(self) -> float:
        """Estimate the number of characters from the first block with any; infinite if it cannot be known."""
        for block in self.blocks:
            if (count := block.characters()) > 0:
                return count / block.size * sum(each.size for each in self.blocks)
        return 0.0

    def windows(self, seed: int, epoch: int, place: Place, least: int) -> Iterator[Window]:
        """Yield the windows of an epoch from a place on, each with at least `least` characters. A shorter rest at the
        end is appended to the last window."""
        previous: Window | None = None
        for window in self.cut(seed, epoch, place, least):
            if previous is not None and sum(map(len, window.documents)) < least:
                previous.documents += window.documents
                previous.next = window.next
                continue
            if previous is not None:
                yield shuffled(previous, seed, epoch)
            previous = window
        if previous is not None:
            yield shuffled(previous, seed, epoch)

    def cut(self, seed: int, epoch: int, place: Place, least: int) -> Iterator[Window]:
        """Yield windows before shuffling; the last may be shorter than `least` characters."""
        order = np.random.default_rng([seed, epoch]).permutation(len(self.blocks))
        number, block, document = place.window, place.block, place.document
        documents: list[str] = []
        size = 0
        for index in range(place.block, len(order)):
            skipped = place.document if index == place.block else 0
            remaining = islice(self.blocks[order[index]].documents(), skipped, None)
            for count, text in enumerate(remaining, start=skipped + 1):
                documents.append(text)
                size += len(text)
                if size >= least and (len(documents) >= self.shuffle_window or size >= MOST_CHARACTERS):
                    yield Window(number, block, document, documents, (index, count))
                    number, block, document, documents, size = number + 1, index, count, [], 0
        if documents:
            yield Window(number, block, document, documents, (len(order), 0))

    def hold_out(self, fractions: Mapping[str, float]) -> dict[str, TextSource]:
        """Split off the first documents: a split for each fraction, of at most `MOST_HELD_OUT` characters, and `train`
        with the rest."""
        characters = self.characters()
        documents = ((number, text) for number, block in enumerate(self.blocks) for text in block.documents())
        parts: dict[str, TextSource] = {}
        first = skipped = length = 0
        for name, fraction in fractions.items():
            target_size, texts, size = min(fraction * characters, MOST_HELD_OUT), list[str](), 0
            while size < target_size and (document := next(documents, None)) is not None:
                number, text = document
                skipped, length = (skipped, length) if number == first else (0, 0)
                skipped, length, first = skipped + 1, length + len(text), number
                texts.append(text)
                size += len(text)
            parts[name] = TextDocuments(tuple(texts), f"the {name} part of {self.name}")
            after = " after that" if len(parts) > 1 else ""
            self.notes.append(
                f"the {name} split is the first {counted(len(texts), 'document')}{after} (at most"
                f" data.{name}_fraction of the text)"
            )
        if next(documents, None) is None:
            raise UserError(
                f"{self.name}: all documents would be held out, with none left for training; use more text, or give "
                f"{' and '.join(f'data.{name}' for name in fractions)} as files"
            )
        share = max(1 - length / max(self.blocks[first].characters(), 1), 0.0)
        rest: list[Block] = [Rest(self.blocks[first], skipped, share), *self.blocks[first + 1 :]]
        return {"train": replace(self, blocks=rest), **parts}


def shuffled(window: Window, seed: int, epoch: int) -> Window:
    order = np.random.default_rng([seed, epoch, window.number + 1]).permutation(len(window.documents))
    window.documents = [window.documents[place] for place in order]
    return window


def stream_of(path: Path, field: str, shuffle_window: int) -> TextStream:
    """Return the stream of a file, of a folder's files ordered by name, or of an iterable passed from Python."""
    if str(path).startswith(PREFIX):
        return stream_of_iterable(str(path), field, shuffle_window)
    files = find_text(path, field).paths
    try:
        blocks = [block for file in files for block in blocks_of(file, field)]
        sizes = [file.stat().st_size for file in files]
        digest = digest_of(files, sizes)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None
    described = (
        f"{counted(len(files), 'file')}, {sum(sizes):,} bytes, {digest[:8]} by names, sizes, first and last bytes"
    )
    return TextStream(
        blocks, str(path), {"files": len(files), "bytes": sum(sizes), "digest": digest}, described, shuffle_window
    )


def digest_of(files: Sequence[Path], sizes: Sequence[int]) -> str:
    """Hash the names, sizes, and first and last bytes of files; a hash of everything would mean reading everything.

    Folders and times are excluded, so that shards can be copied elsewhere between two runs.
    """
    sha256 = hashlib.sha256()
    for file, size in zip(files, sizes, strict=True):
        sha256.update(f"{file.name}\0{size}\0".encode("utf-8", "surrogateescape"))
        with open_file(file) as stream:
            sha256.update(stream.read(FINGERPRINT_BYTES))
            stream.seek(max(size - FINGERPRINT_BYTES, 0))
            sha256.update(stream.read(FINGERPRINT_BYTES))
    return sha256.hexdigest()


def stream_of_iterable(name: str, field: str, shuffle_window: int) -> TextStream:
    blocks = blocks_of_iterable(name, field)
    sha256 = hashlib.sha256()
    for block in blocks[:1]:
        for text in islice(block.documents(), FINGERPRINT_TEXTS):
            sha256.update(text.encode() + b"\0")
    digest = sha256.hexdigest()
    described = (
        f"an iterable of {counted(sum(block.size for block in blocks), 'item')}, "
        if len(blocks) > 1
        else "an iterable, "
    )
    stream = TextStream(
        blocks, "data=", {"digest": digest}, f"{described}{digest[:8]} (its first texts)", shuffle_window
    )
    if next(iter(stream), None) is None:
        raise UserError("data= is a stream without texts; pass one with at least one text")
    return stream
