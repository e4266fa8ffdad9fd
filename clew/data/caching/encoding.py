"""One shard of a text: its pieces as ids in a file."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from clew.core.files import create_private
from clew.data.caching.shards import padding
from clew.data.caching.verified import Entry
from clew.data.files.text_files import Piece
from clew.text.tokenizer import Tokenizer

MOST_CHARACTERS = 2**21
MOST_PIECES = 4096
"""What is encoded at a time."""
LEAD = 64


def encode_shard(
    path: Path, pieces: Sequence[Piece], begins: bool, tokenizer: Tokenizer, tell: Callable[[int], None]
) -> Entry:
    """Writes the ids of pieces, aside and then in place; `begins` says that a document does with the first. `tell` is
    called with the characters that were done since it was called before."""
    aside = path.with_suffix(f".partial-{os.getpid()}")
    entry: Entry = {}
    try:
        with create_private(aside, "wb") as file:
            entry = write_ids(file, pieces, begins, tokenizer, tell)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    finally:
        with suppress(OSError):
            aside.unlink()
    found = path.stat()
    return {"file": path.name, **entry, "size": found.st_size, "changed": found.st_mtime_ns}


def write_ids(
    file: Any, pieces: Sequence[Piece], begins: bool, tokenizer: Tokenizer, tell: Callable[[int], None]
) -> Entry:
    """A document begins with the id that ends the one before, where there is such an id: what is read before its first
    token.

    `before_targets` are the characters of the shard up to the end of its first token; `first_tokens` those that
    documents' first tokens stand for, with what comes before them."""
    dtype = dtype_of(tokenizer)
    sha256 = hashlib.sha256()
    begins_at: list[int] = []
    num_tokens = num_unknown = num_characters = before_targets = first_tokens = 0
    waiting = 0 if begins else None  # characters of a document before its first token
    for piece, ids in encoded_pieces(pieces, tokenizer):
        if ids and (not num_tokens or waiting is not None):
            lead = first_stop(piece.text, tokenizer)
            before_targets = before_targets if num_tokens else num_characters + lead
            if waiting is not None:
                first_tokens, waiting = first_tokens + waiting + lead, None
        elif waiting is not None:
            waiting += len(piece.text)
        array = np.array(ids, dtype=dtype)
        file.write(array.data)
        sha256.update(array.data)
        num_tokens += len(ids)
        num_unknown += 0 if tokenizer.unknown is None else int((array == tokenizer.unknown).sum())
        num_characters += len(piece.text)
        if piece.closes:
            begins_at.append(num_tokens - (ids[-1:] == [tokenizer.end]))
            waiting = 0
        tell(len(piece.text))
    tail = bytes(padding(num_tokens * dtype.itemsize)) + np.array(begins_at, dtype=np.uint32).tobytes()
    file.write(tail)
    sha256.update(tail)
    return {
        "num_tokens": num_tokens,
        "num_begins": len(begins_at),
        "num_characters": num_characters,
        "num_unknown": num_unknown,
        "before_targets": before_targets if num_tokens else num_characters,
        "first_tokens": first_tokens,
        "sha256": sha256.hexdigest(),
    }


def dtype_of(tokenizer: Tokenizer) -> np.dtype:
    return np.dtype(np.uint16 if tokenizer.vocabulary < 2**16 else np.uint32)


def encoded_pieces(pieces: Iterable[Piece], tokenizer: Tokenizer) -> Iterator[tuple[Piece, list[int]]]:
    """Each piece with its ids, and with the id that ends a document; a word tokenizer's `end` is the newline that is
    there already."""
    end = [tokenizer.end] if tokenizer.end is not None and tokenizer.unit != "word" else []
    for some in batched(pieces):
        encoded = tokenizer.encode_batch([piece.text for piece in some])
        for piece, ids in zip(some, encoded, strict=True):
            yield piece, ids + end if piece.closes else ids


def batched(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    batch: list[Piece] = []
    size = 0
    for piece in pieces:
        batch.append(piece)
        size += len(piece.text)
        if size >= MOST_CHARACTERS or len(batch) >= MOST_PIECES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def first_stop(text: str, tokenizer: Tokenizer) -> int:
    """Where the characters of a text's first token end; its length, where it has none. No kind joins what a newline
    parts, so that the first line, or its beginning up to a space, is enough to know."""
    line = text.find("\n", LEAD) + 1 or len(text)
    space = text.find(" ", LEAD, line)
    for part in (text[: space if space > 0 else line], text):
        spans = tokenizer.encode_with_offsets(part)[1]
        if spans:
            return spans[0][1]
    return len(text)
