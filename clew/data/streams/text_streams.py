"""Texts of any size, read in windows of documents whose order is a function of (seed, epoch). Holds one window, and
knows no tokenizer.

A stream is blocks. An epoch reads them in an order drawn from (seed, epoch), one document after the other, and cuts
what comes into windows; the documents of each are shuffled by (seed, epoch, number of the window). How many batches
come out of a window is known once it is encoded, so that (epoch, batch) alone does not say where to read: a `Place`
does, the window's first document by its block. It is a few numbers in a checkpoint, and going on reads that one window
again and nothing before it.
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
from clew.data.files.text_files import Piece, TextDocuments, TextSource, find_text, pieces_of
from clew.data.streams.blocks import Block, Rest, blocks_of
from clew.data.streams.iterables import PREFIX, blocks_of_iterable

MOST_CHARACTERS = 2**23
"""Of a window, whatever `data.shuffle_window` says: what is in memory must not depend on how long documents are."""
MOST_HELD_OUT = 2**20
"""Characters of a part that is held out."""
LOOKED_AT = 4096
"""Bytes at both ends of a file by which it is known again."""
FEW_TEXTS = 100
"""Texts by which an iterable is known again."""


class Place(NamedTuple):
    """Where a window begins: its number in the epoch, the number of the epoch's first batch in it, its first document's
    block as a place in the epoch's order, and how many documents of that block are before it."""

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
    """The block and the document with which the next window begins."""


@dataclass(frozen=True, eq=False)
class TextStream:
    """A text that is read in windows. As a `TextSource` it is its documents in the order of the files."""

    blocks: Sequence[Block]
    name: str
    facts: Mapping[str, Any]
    """What tells it from another."""
    described: str
    """The same, in words."""
    shuffle_window: int
    notes: list[str] = field(default_factory=list)
    """What a person should know of it."""

    def pieces(self) -> Iterator[Piece]:
        return pieces_of([document] for block in self.blocks for document in block.documents())

    def __iter__(self) -> Iterator[str]:
        return (piece.text for piece in self.pieces())

    def __str__(self) -> str:
        return self.name

    def beginning(self, characters: int) -> TextDocuments:
        """The first documents, of about so many characters."""
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
        """How many there are, about; infinite where that cannot be told. The first block that has some stands for the
        others."""
        for block in self.blocks:
            if (found := block.characters()) > 0:
                return found / block.size * sum(each.size for each in self.blocks)
        return 0.0

    def windows(self, seed: int, epoch: int, place: Place, least: int) -> Iterator[Window]:
        """The windows of an epoch from a place on, each of at least so many characters: of what is left at the end the
        last window gets the rest."""
        held: Window | None = None
        for window in self.cut(seed, epoch, place, least):
            if held is not None and sum(map(len, window.documents)) < least:
                held.documents += window.documents
                held.next = window.next
                continue
            if held is not None:
                yield shuffled(held, seed, epoch)
            held = window
        if held is not None:
            yield shuffled(held, seed, epoch)

    def cut(self, seed: int, epoch: int, place: Place, least: int) -> Iterator[Window]:
        order = np.random.default_rng([seed, epoch]).permutation(len(self.blocks))
        number, block, document = place.window, place.block, place.document
        documents: list[str] = []
        size = 0
        for at in range(place.block, len(order)):
            skipped = place.document if at == place.block else 0
            for count, text in enumerate(islice(self.blocks[order[at]].documents(), skipped, None), start=skipped + 1):
                documents.append(text)
                size += len(text)
                if size >= least and (len(documents) >= self.shuffle_window or size >= MOST_CHARACTERS):
                    yield Window(number, block, document, documents, (at, count))
                    number, block, document, documents, size = number + 1, at, count, [], 0
        if documents:
            yield Window(number, block, document, documents, (len(order), 0))

    def hold_out(self, fractions: Mapping[str, float]) -> dict[str, TextSource]:
        """The first documents as parts of about these fractions, or of `MOST_HELD_OUT` characters where that is less,
        and the rest."""
        characters = self.characters()
        documents = ((number, text) for number, block in enumerate(self.blocks) for text in block.documents())
        parts: dict[str, TextSource] = {}
        first = skipped = length = 0
        for name, fraction in fractions.items():
            wanted, texts, size = min(fraction * characters, MOST_HELD_OUT), list[str](), 0
            while size < wanted and (found := next(documents, None)) is not None:
                skipped, length = (skipped, length) if found[0] == first else (0, 0)
                skipped, length, first = skipped + 1, length + len(found[1]), found[0]
                texts.append(found[1])
                size += len(found[1])
            parts[name] = TextDocuments(tuple(texts), f"the {name} part of {self.name}")
            after = " after that" if len(parts) > 1 else ""
            self.notes.append(
                f"the {name} part is the first {counted(len(texts), 'document')}{after} (data.{name}_fraction, or less)"
            )
        if next(documents, None) is None:
            raise UserError(
                f"{self.name}: all its documents would be held out, and none is left to train on; give more text, or "
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
    """The stream of a file, of a folder's files in the order of their names, or of an iterable that Python was
    given."""
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
    """Of the names, the sizes, and the first and last bytes of files: to hash all would be to read all. Folders and
    times are left out, so that shards may be copied elsewhere between two runs."""
    sha256 = hashlib.sha256()
    for file, size in zip(files, sizes, strict=True):
        sha256.update(f"{file.name}\0{size}\0".encode("utf-8", "surrogateescape"))
        with open_file(file) as stream:
            sha256.update(stream.read(LOOKED_AT))
            stream.seek(max(size - LOOKED_AT, 0))
            sha256.update(stream.read(LOOKED_AT))
    return sha256.hexdigest()


def stream_of_iterable(name: str, field: str, shuffle_window: int) -> TextStream:
    blocks = blocks_of_iterable(name, field)
    sha256 = hashlib.sha256()
    for block in blocks[:1]:
        for text in islice(block.documents(), FEW_TEXTS):
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
        raise UserError("data= is a stream without a text in it; give one that has some")
    return stream
