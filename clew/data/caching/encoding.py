"""One shard of an encoded text: the token ids of some pieces, in a file."""

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
"""The most characters and pieces that are encoded in one batch."""
LEAD = 64
"""The first token of a text is searched for from the beginning up to a space or newline after this many characters."""


def encode_shard(
    path: Path, pieces: Sequence[Piece], begins: bool, tokenizer: Tokenizer, on_progress: Callable[[int], None]
) -> Entry:
    """Write the token ids of pieces to a file, under a temporary name until it is complete.

    With `begins`, the first piece begins a document. `on_progress` is called with the number of characters encoded
    since the previous call.
    """
    partial = path.with_suffix(f".partial-{os.getpid()}")
    entry: Entry = {}
    try:
        with create_private(partial, "wb") as file:
            entry = write_ids(file, pieces, begins, tokenizer, on_progress)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        with suppress(OSError):
            partial.unlink()
    stat = path.stat()
    return {"file": path.name, **entry, "size": stat.st_size, "changed": stat.st_mtime_ns}


def write_ids(
    file: Any, pieces: Sequence[Piece], begins: bool, tokenizer: Tokenizer, on_progress: Callable[[int], None]
) -> Entry:
    """Write the ids of pieces and the positions where documents begin; return their entry.

    If the tokenizer has an end id, a document begins with the end id of the document before: a model reads it before
    the document's first token.

    `before_targets` counts the characters of the shard up to the end of its first token. `first_tokens` counts the
    characters up to the end of each document's first token.
    """
    dtype = dtype_of(tokenizer)
    sha256 = hashlib.sha256()
    # Stored, since they cannot be found among the ids: characters have no end token, and for words it ends every line.
    starts: list[int] = []
    num_tokens = num_unknown = num_characters = before_targets = first_tokens = 0
    num_waiting = 0 if begins else None  # characters of the document so far; None after its first token
    for piece, ids in encoded_pieces(pieces, tokenizer):
        if ids and (not num_tokens or num_waiting is not None):
            lead = first_stop(piece.text, tokenizer)
            before_targets = before_targets if num_tokens else num_characters + lead
            if num_waiting is not None:
                first_tokens, num_waiting = first_tokens + num_waiting + lead, None
        elif num_waiting is not None:
            num_waiting += len(piece.text)
        array = np.array(ids, dtype=dtype)
        file.write(array.data)
        sha256.update(array.data)
        num_tokens += len(ids)
        num_unknown += 0 if tokenizer.unknown is None else int((array == tokenizer.unknown).sum())
        num_characters += len(piece.text)
        if piece.closes:
            starts.append(num_tokens - (ids[-1:] == [tokenizer.end]))
            num_waiting = 0
        on_progress(len(piece.text))
    tail = bytes(padding(num_tokens * dtype.itemsize)) + np.array(starts, dtype=np.uint32).tobytes()
    file.write(tail)
    sha256.update(tail)
    return {
        "num_tokens": num_tokens,
        "num_begins": len(starts),
        "num_characters": num_characters,
        "num_unknown": num_unknown,
        "before_targets": before_targets if num_tokens else num_characters,
        "first_tokens": first_tokens,
        "sha256": sha256.hexdigest(),
    }


def dtype_of(tokenizer: Tokenizer) -> np.dtype:
    return np.dtype(np.uint16 if tokenizer.vocabulary < 2**16 else np.uint32)


def encoded_pieces(pieces: Iterable[Piece], tokenizer: Tokenizer) -> Iterator[tuple[Piece, list[int]]]:
    """Encode pieces; append the end id where a piece closes a document. A word tokenizer's `end` is the newline, which
    the text has already."""
    end = [tokenizer.end] if tokenizer.end is not None and tokenizer.unit != "word" else []
    for batch in batched(pieces):
        encoded = tokenizer.encode_batch([piece.text for piece in batch])
        for piece, ids in zip(batch, encoded, strict=True):
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
    """Return the index in a text where its first token ends, or the text's length if it has no token.

    No tokenizer joins characters across a newline, so the first line, or its beginning up to a space, is enough.
    """
    line = text.find("\n", LEAD) + 1 or len(text)
    space = text.find(" ", LEAD, line)
    for part in (text[: space if space > 0 else line], text):
        spans = tokenizer.encode_with_offsets(part)[1]
        if spans:
            return spans[0][1]
    return len(text)
