"""A text encoded once, into memory-mapped shards that are found again by what the text and the tokenizer are.

A folder KEY an encoding: its shards, and index.json, written last, which says what is in them. Until then shards.jsonl
has a line for each that is whole, so that an encoding which was interrupted goes on from these.
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
from clew.core.files import create_private, private_folder, write_private
from clew.data.caching.encoding import Entry, dtype_of
from clew.data.caching.shards import Shard, Shards
from clew.data.caching.verified import DAMAGE, HASHED, digest, is_whole
from clew.data.encoding_processes import Job, encode_shards
from clew.data.files.extents import Extent, Measuring
from clew.data.files.measures import forget, measured
from clew.data.files.text_files import Piece, TextSource
from clew.text.tokenizer import Tokenizer

FORMAT = 3
INDEX, WHOLE = "index.json", "shards.jsonl"
SHARD = 2**24
"""Characters of a shard, at least; it ends with a piece."""

Progress = Callable[[int, int], None]
"""Called with the characters done and the characters in all."""


@dataclass(frozen=True, eq=False)
class TokenFile:
    """A corpus as ids; where documents are `apart`, none of them sees another. `num_target_characters` leaves out what
    the first token stands for, which nothing predicts, and `num_characters_apart` what every document's first token
    stands for."""

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
        """The places, but for the first, whose token nothing predicts: where documents begin, unless the end of the one
        before opens them."""
        if not self.apart or not isinstance(self.tokens, Shards) or self.tokens.opened:
            return np.empty(0, np.int64)
        return self.tokens.boundaries

    @property
    def sequences(self) -> list[np.ndarray]:
        """The ids, loaded: one sequence, or one a document where its first token is not predicted."""
        return np.split(np.asarray(self.tokens), self.unpredicted)


def encode_corpus(
    source: TextSource, tokenizer: Tokenizer, cache: Path | str, progress: Progress | None = None, workers: int = 1
) -> TokenFile:
    """The ids of a text, from the cache where they are there and whole. Documents are parted by the tokenizer's
    `end`."""
    size = measured(source, cache)
    key = hashlib.sha256(f"1 {size.digest} {tokenizer.hash}".encode()).hexdigest()[:32]
    folder = Path(cache) / key
    found = load_tokens(folder)
    if found is None:
        try:
            private_folder(folder)
            write_tokens(folder, source, size, tokenizer, progress, workers)
        except OSError as error:
            raise UserError(
                f"the encoded text cannot be kept in {cache}: {error.strerror or error}; make room there, allow writing"
                " to it, or name another folder in the environment variable CLEW_CACHE"
            ) from None
        except UserError:
            forget(source, cache)
            raise
        finally:
            with suppress(OSError):
                folder.rmdir()  # where nothing is in it
        found = load_tokens(folder)
        assert found is not None, f"{folder} cannot be read back"
    return found


def load_tokens(folder: Path) -> TokenFile | None:
    """The encoding in a folder; None where there is none, or part of one, or a changed one."""
    try:
        about = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        if about.pop("sha256") != digest(about) or about["format"] != FORMAT:
            return None
        entries: list[Entry] = about["shards"]
        is_small = sum(entry["size"] for entry in entries) <= HASHED
        if not all(is_whole(folder, entry, hashed=is_small) for entry in entries):
            return None
        shards = [Shard(folder / entry["file"], entry["num_tokens"], entry["num_begins"]) for entry in entries]
        total = {
            name: sum(entry[name] for entry in entries) for name in ("num_characters", "num_unknown", "first_tokens")
        }
        characters = total["num_characters"]
        return TokenFile(
            Shards(shards, about["dtype"], about["opened"]),
            characters,
            characters - before_targets(entries),
            total["num_unknown"],
            characters - total["first_tokens"],
            folder.name,
        )
    except DAMAGE:
        return None


def before_targets(entries: list[Entry]) -> int:
    """The characters up to the end of the first token."""
    count = 0
    for entry in entries:
        count += entry["before_targets"]
        if entry["num_tokens"]:
            break
    return count


def write_tokens(
    folder: Path, source: TextSource, size: Extent, tokenizer: Tokenizer, progress: Progress | None, workers: int
) -> None:
    """All shards that are not there yet, and the index. Two that do it at once write the same."""
    measuring, entries, done = Measuring(), [], 0

    def tell(count: int) -> None:
        nonlocal done
        done += count
        if progress is not None:
            progress(done, size.num_characters)

    kept = whole_shards(folder)
    workers = max(1, min(workers, -(-size.num_characters // SHARD)))
    with create_private(folder / WHOLE, "a") as file:
        file.write("\n")  # what an earlier one wrote last may be half a line
        for entry in encode_shards(cut_into_jobs(source, folder, kept, measuring), tokenizer, workers, tell):
            entries.append(entry)
            file.write(json.dumps([entry, digest({"format": FORMAT, **entry})]) + "\n")
            file.flush()
    fault = ""
    if measuring.extent() != size:
        fault = "it changed while it was read; let no other program write there and try again"
    elif not any(entry["num_tokens"] for entry in entries):
        fault = (
            f"there is no token in its {size.num_characters} characters, all of them white space; give a text with"
            " words in it"
        )
    if fault:
        shutil.rmtree(folder, ignore_errors=True)
        raise UserError(f"{source}: {fault}")
    about = {
        "format": FORMAT,
        "tokenizer": tokenizer.hash,
        "dtype": dtype_of(tokenizer).name,
        "opened": tokenizer.end is not None,
    }
    about["shards"] = entries
    aside = folder / f"{INDEX}.partial-{os.getpid()}"
    write_private(aside, json.dumps({**about, "sha256": digest(about)}, indent=1))
    aside.replace(folder / INDEX)
    (folder / WHOLE).unlink(missing_ok=True)


def cut_into_jobs(source: TextSource, folder: Path, kept: dict[str, Entry], measuring: Measuring) -> Iterator[Job]:
    """The text in shards, each with its entry where it is `kept`; what is read is measured, since another text's shards
    have no place under this key."""
    pieces: list[Piece] = []
    number = size = 0
    begins = True

    def job() -> Job:
        path = folder / f"{number:06}.tokens"
        entry = kept.get(path.name)
        return Job(path, pieces, begins, entry if entry is not None and entry["num_characters"] == size else None)

    for piece in source.pieces():
        measuring.add(piece)
        pieces.append(piece)
        size += len(piece.text)
        if size >= SHARD:
            yield job()
            pieces, number, size, begins = [], number + 1, 0, piece.closes
    if pieces or not number:
        yield job()


def whole_shards(folder: Path) -> dict[str, Entry]:
    """What is there and as it was written, of an encoding that was interrupted or has been damaged; by file."""
    entries: list[Any] = []
    with suppress(*DAMAGE):
        about = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        entries += about["shards"] if about.pop("sha256") == digest(about) and about["format"] == FORMAT else []
    with suppress(*DAMAGE):
        for line in (folder / WHOLE).read_text(encoding="utf-8").splitlines():
            with suppress(*DAMAGE):
                entry, hashed = json.loads(line)
                entries += [entry] if hashed == digest({"format": FORMAT, **entry}) else []
    found = {}
    for entry in entries:
        with suppress(*DAMAGE):
            if is_whole(folder, entry, hashed=True):
                found[entry["file"]] = entry
    return found
