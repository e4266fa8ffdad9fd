"""A text encoded once, into a memory map that is found again by what the text and the tokenizer are.

Two files an encoding: KEY.tokens, the ids as the machine's own integers, and KEY.json, written last, which says what is in it.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from clew.core.errors import UserError
from clew.data.text_files import Measure, Measuring, Piece, TextSource, measure
from clew.text.tokenizer import Tokenizer

FORMAT = 1
BATCH = 32

Progress = Callable[[int, int], None]
"""Called with the characters done and the characters in all."""


@dataclass(frozen=True, eq=False)
class TokenFile:
    """A corpus as ids. `num_target_characters` leaves out what the first token stands for, which nothing predicts."""

    tokens: np.memmap
    num_characters: int
    num_target_characters: int
    num_unknown: int

    def __len__(self) -> int:
        return len(self.tokens)


def encode_corpus(source: TextSource, tokenizer: Tokenizer, cache: Path | str, progress: Progress | None = None) -> TokenFile:
    """The ids of a text, from the cache where they are there and whole. Documents are parted by the tokenizer's `end`."""
    size = measure(source)
    key = hashlib.sha256(f"{FORMAT} {size.digest} {tokenizer.hash}".encode()).hexdigest()[:32]
    path = Path(cache) / f"{key}.tokens"
    found = load_tokens(path)
    if found is None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_tokens(path, source, size, tokenizer, progress)
        except OSError as error:
            raise UserError(
                f"the encoded text cannot be kept in {cache}: {error.strerror or error}; make room there, allow writing to it, "
                "or name another folder in the environment variable CLEW_CACHE"
            ) from None
        found = load_tokens(path)
        assert found is not None, f"{path} cannot be read back"
    return found


def load_tokens(path: Path) -> TokenFile | None:
    """The encoding at a path; None where there is none, or part of one, or a changed one."""
    try:
        about = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != about["sha256"]:
                return None
        tokens = np.memmap(path, dtype=about["dtype"], mode="r")
        return TokenFile(tokens, about["num_characters"], about["num_target_characters"], about["num_unknown"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_tokens(path: Path, source: TextSource, size: Measure, tokenizer: Tokenizer, progress: Progress | None) -> None:
    """Both files, each written aside and renamed; two processes that do it at once write the same."""
    aside = path.with_suffix(f".partial-{os.getpid()}")
    try:
        with aside.open("wb") as file:
            about = encode_into(file, source, size, tokenizer, progress)
        with aside.open("rb") as file:
            about["sha256"] = hashlib.file_digest(file, "sha256").hexdigest()
        aside.replace(path)
        aside.write_text(json.dumps(about, indent=1), encoding="utf-8")
        aside.replace(path.with_suffix(".json"))
    finally:
        with suppress(OSError):
            aside.unlink()


def encode_into(file: IO[bytes], source: TextSource, size: Measure, tokenizer: Tokenizer, progress: Progress | None) -> dict[str, Any]:
    """Write the ids, in the order of the text; what the JSON says of them. The text must be the one that was measured, or its key would
    lead to another's ids."""
    dtype = np.dtype(np.uint16 if tokenizer.vocabulary < 2**16 else np.uint32)
    num_tokens = num_unknown = num_done = num_before_targets = 0
    measuring = Measuring()
    for piece, ids in encoded_pieces(source, tokenizer):
        if ids and not num_tokens:
            spans = tokenizer.encode_with_offsets(piece.text)[1]
            num_before_targets = num_done + (spans[0][1] if spans else len(piece.text))  # a document of white space is its end alone
        array = np.array(ids, dtype=dtype)
        file.write(array.data)
        num_tokens += len(ids)
        num_unknown += 0 if tokenizer.unknown is None else int((array == tokenizer.unknown).sum())
        num_done += len(piece.text)
        measuring.add(piece)
        if progress is not None:
            progress(num_done, size.num_characters)
    if measuring.measure() != size:
        raise UserError(f"{source}: it changed while it was read; let no other program write there and try again")
    if not num_tokens:
        raise UserError(
            f"{source}: there is no token in its {size.num_characters} characters, all of them white space; give a text with words in it"
        )
    return {
        "format": FORMAT,
        "tokenizer": tokenizer.hash,
        "dtype": dtype.name,
        "num_tokens": num_tokens,
        "num_characters": size.num_characters,
        "num_target_characters": size.num_characters - num_before_targets,
        "num_unknown": num_unknown,
    }


def encoded_pieces(source: TextSource, tokenizer: Tokenizer) -> Iterator[tuple[Piece, list[int]]]:
    """Each piece with its ids, and with the id that ends a document; a word tokenizer's `end` is the newline that is there already."""
    end = [tokenizer.end] if tokenizer.end is not None and tokenizer.unit != "word" else []
    for pieces in batched(source.pieces(), BATCH):
        encoded = tokenizer.encode_batch([piece.text for piece in pieces])
        for piece, ids in zip(pieces, encoded, strict=True):
            yield piece, ids + end if piece.closes else ids


def batched(items: Iterable[Piece], size: int) -> Iterator[list[Piece]]:
    items = iter(items)
    while batch := list(islice(items, size)):
        yield batch
