"""The cache of encoded texts: memory-mapped shards, keyed by a hash of the text and of the tokenizer.

Each encoding has a folder named by its key, with the shards and index.json, which describes them and is written last.
Until then shards.jsonl has a line for each finished shard, so that an interrupted encoding can resume from them.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from clew.core.errors import UserError
from clew.core.files import create_private, json_hash, private_folder, write_private
from clew.data.caching.encoding import Entry, dtype_of
from clew.data.caching.shards import Shard, Shards
from clew.data.caching.verified import DAMAGE, HASHED, is_whole
from clew.data.encoding_processes import Job, encode_shards
from clew.data.files.extents import Extent, ExtentCounter
from clew.data.files.measures import cached_extent, forget_extent
from clew.data.files.text_files import Piece, TextSource
from clew.text.tokenizer import Tokenizer

FORMAT = 3
INDEX, WHOLE = "index.json", "shards.jsonl"
SHARD = 2**24
"""The least number of characters in a shard; a shard ends where a piece ends."""

Progress = Callable[[int, int], None]
"""Called with the number of characters encoded so far and their total number."""


@dataclass(frozen=True, eq=False)
class TokenFile:
    """A corpus as token ids; with `apart`, no document sees another.

    `num_target_characters` excludes the characters of the first token, which is never predicted.
    `num_characters_apart` excludes the characters of every document's first token.
    """

    tokens: Shards | np.ndarray
    num_characters: int
    num_target_characters: int
    num_unknown: int
    num_characters_apart: int = 0
    key: str = ""
    apart: bool = False

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def unpredicted(self) -> np.ndarray:
        """The positions, after the first, of tokens that are never predicted: where documents begin, unless each begins
        with the end token of the document before."""
        if not self.apart or not isinstance(self.tokens, Shards) or self.tokens.opened:
            return np.empty(0, np.int64)
        return self.tokens.boundaries

    @property
    def sequences(self) -> list[np.ndarray]:
        """The ids, loaded into memory: one sequence, or one per document if first tokens are not predicted."""
        return np.split(np.asarray(self.tokens), self.unpredicted)


def encode_corpus(
    source: TextSource, tokenizer: Tokenizer, cache: Path | str, progress: Progress | None = None, workers: int = 1
) -> TokenFile:
    """Return the token ids of a text, from the cache if they are there and intact. The tokenizer's `end` separates
    documents."""
    size = cached_extent(source, cache)
    key = hashlib.sha256(f"1 {size.digest} {tokenizer.hash}".encode()).hexdigest()[:32]
    folder = Path(cache) / key
    text = load_tokens(folder)
    if text is None:
        try:
            private_folder(folder)
            write_tokens(folder, source, size, tokenizer, progress, workers)
        except OSError as error:
            raise UserError(
                f"the encoded text cannot be stored in {cache}: {error.strerror or error}; free some space, make the"
                " folder writable, or set the environment variable CLEW_CACHE to another folder"
            ) from None
        except UserError:
            forget_extent(source, cache)
            raise
        finally:
            with suppress(OSError):
                folder.rmdir()  # fails, as it should, unless the folder is empty
        text = load_tokens(folder)
        assert text is not None, f"{folder} cannot be read back"
    return text


def load_tokens(folder: Path) -> TokenFile | None:
    """Load the encoding in a folder; return None if it is missing, incomplete or changed."""
    try:
        index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        if index.pop("sha256") != json_hash(index) or index["format"] != FORMAT:
            return None
        entries: list[Entry] = index["shards"]
        is_small = sum(entry["size"] for entry in entries) <= HASHED
        if not all(is_whole(folder, entry, hashed=is_small) for entry in entries):
            return None
        shards = [Shard(folder / entry["file"], entry["num_tokens"], entry["num_begins"]) for entry in entries]
        totals = {
            name: sum(entry[name] for entry in entries) for name in ("num_characters", "num_unknown", "first_tokens")
        }
        num_characters = totals["num_characters"]
        return TokenFile(
            Shards(shards, index["dtype"], index["opened"]),
            num_characters,
            num_characters - num_before_targets(entries),
            totals["num_unknown"],
            num_characters - totals["first_tokens"],
            folder.name,
        )
    except DAMAGE:
        return None


def num_before_targets(entries: list[Entry]) -> int:
    """Return the number of characters up to the end of the first token."""
    count = 0
    for entry in entries:
        count += entry["before_targets"]
        if entry["num_tokens"]:
            break
    return count


def write_tokens(
    folder: Path, source: TextSource, size: Extent, tokenizer: Tokenizer, progress: Progress | None, workers: int
) -> None:
    """Write the missing shards and the index. Two processes that do this at the same time write the same bytes."""
    measuring, entries, done = ExtentCounter(), [], 0

    def report(count: int) -> None:
        nonlocal done
        done += count
        if progress is not None:
            progress(done, size.num_characters)

    finished = finished_shards(folder)
    workers = max(1, min(workers, -(-size.num_characters // SHARD)))
    with create_private(folder / WHOLE, "a") as file:
        file.write("\n")  # an interrupted process may have left half a line
        for entry in encode_shards(cut_into_jobs(source, folder, finished, measuring), tokenizer, workers, report):
            entries.append(entry)
            file.write(json.dumps([entry, json_hash({"format": FORMAT, **entry})]) + "\n")
            file.flush()
    fault = ""
    if measuring.extent() != size:
        fault = "it changed while it was read; make sure that no other program writes to it, and try again"
    elif not any(entry["num_tokens"] for entry in entries):
        fault = f"it has no tokens, only {size.num_characters} characters of white space; use a text with words"
    if fault:
        shutil.rmtree(folder, ignore_errors=True)
        raise UserError(f"{source}: {fault}")
    index = {
        "format": FORMAT,
        "tokenizer": tokenizer.hash,
        "dtype": dtype_of(tokenizer).name,
        "opened": tokenizer.end is not None,
    }
    index["shards"] = entries
    partial = folder / f"{INDEX}.partial-{os.getpid()}"
    write_private(partial, json.dumps({**index, "sha256": json_hash(index)}, indent=1))
    partial.replace(folder / INDEX)
    (folder / WHOLE).unlink(missing_ok=True)


def cut_into_jobs(
    source: TextSource, folder: Path, finished: dict[str, Entry], measuring: ExtentCounter
) -> Iterator[Job]:
    """Cut the text into shards; a finished shard's job carries its entry.

    The text is measured while it is read: if it has changed, its shards do not belong under this key.
    """
    pieces: list[Piece] = []
    number = size = 0
    begins = True

    def job() -> Job:
        path = folder / f"{number:06}.tokens"
        entry = finished.get(path.name)
        return Job(path, pieces, begins, entry if entry is not None and entry["num_characters"] == size else None)

    for piece in source.pieces():
        measuring.add(piece)
        pieces.append(piece)
        size += len(piece.text)
        # A shard ends where a piece does, so that the ids do not depend on the number of processes.
        if size >= SHARD:
            yield job()
            pieces, number, size, begins = [], number + 1, 0, piece.closes
    if pieces or not number:
        yield job()


def finished_shards(folder: Path) -> dict[str, Entry]:
    """Return the intact shards of an interrupted or damaged encoding: file name -> entry."""
    entries: list[Any] = []
    with suppress(*DAMAGE):
        index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        entries += index["shards"] if index.pop("sha256") == json_hash(index) and index["format"] == FORMAT else []
    with suppress(*DAMAGE):
        for line in (folder / WHOLE).read_text(encoding="utf-8").splitlines():
            with suppress(*DAMAGE):
                entry, sha256 = json.loads(line)
                entries += [entry] if sha256 == json_hash({"format": FORMAT, **entry}) else []
    intact = {}
    for entry in entries:
        with suppress(*DAMAGE):
            if is_whole(folder, entry, hashed=True):
                intact[entry["file"]] = entry
    return intact
