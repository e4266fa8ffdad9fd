"""The cache of encoded documents: memory-mapped arrays, keyed by a hash of the documents and of the tokenizer.

An encoding has four files: KEY.tokens, the ids of all sentences; KEY.sentences, the index of each sentence's first id,
and the number of ids; KEY.documents, the index of each document's first sentence, and the number of sentences; and
KEY.json, which describes them and is written last.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from clew.core.errors import UserError
from clew.core.files import create_private, private_folder, write_private
from clew.data.caching.verified import HASHED, is_whole
from clew.data.documents import Documents, Line, measure_documents
from clew.data.files.extents import Extent, ExtentCounter
from clew.data.files.measures import cached_extent, forget_extent
from clew.text.tokenizer import Tokenizer

FORMAT = 2
BATCH = 1024
PARTS = ("tokens", "sentences", "documents")

Progress = Callable[[int, int], None]
"""Called with the number of characters encoded so far and their total number."""


@dataclass(frozen=True, eq=False)
class EncodedDocuments:
    """Documents as token ids, with the offsets of sentences and documents.

    Sentence s is tokens[sentences[s] : sentences[s + 1]]; document d is sentences documents[d] up to, but not
    including, documents[d + 1].
    """

    tokens: np.ndarray
    sentences: np.ndarray
    documents: np.ndarray
    num_characters: int = 0
    num_unknown: int = 0
    digest: str = ""

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def num_sentences(self) -> int:
        return len(self.sentences) - 1

    @property
    def num_documents(self) -> int:
        return len(self.documents) - 1


def encode_documents(
    source: Documents, tokenizer: Tokenizer, cache: Path | str, progress: Progress | None = None
) -> EncodedDocuments:
    """Return the token ids of documents, from the cache if they are there and intact."""
    extent = cached_extent(source, cache, measure_documents)
    key = hashlib.sha256(f"documents {FORMAT} {extent.digest} {tokenizer.hash}".encode()).hexdigest()[:32]
    path = Path(cache) / f"{key}.json"
    documents = load(path)
    if documents is None:
        try:
            private_folder(path.parent)
            write(path, source, extent, tokenizer, progress)
        except OSError as error:
            raise UserError(
                f"the encoded documents cannot be stored in {cache}: {error.strerror or error}; free some space, make"
                " the folder writable, or set the environment variable CLEW_CACHE to another folder"
            ) from None
        except UserError:
            forget_extent(source, cache)
            raise
        documents = load(path)
        assert documents is not None, f"{path} cannot be read back"
    return documents


def load(path: Path) -> EncodedDocuments | None:
    """Load the encoding at a path; return None if it is missing, incomplete or changed."""
    try:
        index = json.loads(path.read_text(encoding="utf-8"))
        is_small = sum(index[part]["size"] for part in PARTS) <= HASHED
        if not all(is_whole(path.parent, index[part], hashed=is_small) for part in PARTS):
            return None
        tokens, sentences, documents = (
            np.memmap(path.with_suffix(f".{part}"), index[part]["dtype"], "r") for part in PARTS
        )
        return EncodedDocuments(
            tokens, sentences, documents, index["num_characters"], index["num_unknown"], index["digest"]
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write(path: Path, source: Documents, extent: Extent, tokenizer: Tokenizer, progress: Progress | None) -> None:
    """Write all files, each under a temporary name at first. Two processes that do this at the same time write the same
    bytes."""
    partial = {part: path.with_suffix(f".{part}.partial-{os.getpid()}") for part in (*PARTS, "json")}
    try:
        index: dict[str, Any] = write_arrays(partial, source, extent, tokenizer, progress)
        for part in PARTS:
            with partial[part].open("rb") as file:
                index[part]["sha256"] = hashlib.file_digest(file, "sha256").hexdigest()
            final = path.with_suffix(f".{part}")
            partial[part].replace(final)
            index[part] |= {"file": final.name, "size": final.stat().st_size, "changed": final.stat().st_mtime_ns}
        write_private(partial["json"], json.dumps(index, indent=1))
        partial["json"].replace(path)
    finally:
        for leftover in partial.values():
            with suppress(OSError):
                leftover.unlink()


def write_arrays(
    paths: dict[str, Path], source: Documents, extent: Extent, tokenizer: Tokenizer, progress: Progress | None
) -> dict[str, Any]:
    """Write the three arrays and return their description for the JSON file. Check that the documents are the ones
    that were measured."""
    dtypes = {
        "tokens": np.dtype(np.uint16 if tokenizer.vocabulary < 2**16 else np.uint32),
        "sentences": np.dtype(np.int64),
    }
    dtypes["documents"] = dtypes["sentences"]
    num_tokens = num_sentences = num_unknown = 0
    opens_document = False
    measuring = ExtentCounter()
    with ExitStack() as stack:
        files = {part: stack.enter_context(create_private(paths[part], "wb")) for part in PARTS}

        def put(part: str, values: Any) -> None:
            files[part].write(np.asarray(values, dtype=dtypes[part]).tobytes())

        for lines in batched(source.lines()):
            ids: list[int] = []
            starts: list[int] = []
            firsts: list[int] = []
            for line, encoded in zip(lines, tokenizer.encode_batch([line.text for line in lines]), strict=True):
                measuring.add(line)
                opens_document = opens_document or line.opens
                if not encoded:  # the tokenizer drops all its characters
                    continue
                if opens_document:
                    firsts.append(num_sentences + len(starts))
                    opens_document = False
                starts.append(num_tokens + len(ids))
                ids += encoded
            put("tokens", ids)
            put("sentences", starts)
            put("documents", firsts)
            num_tokens += len(ids)
            num_sentences += len(starts)
            num_unknown += 0 if tokenizer.unknown is None else ids.count(tokenizer.unknown)
            if progress is not None:
                progress(measuring.num_characters, extent.num_characters)
        put("sentences", [num_tokens])
        put("documents", [num_sentences])
    if measuring.extent() != extent:
        raise UserError(
            f"{source}: it changed while it was read; make sure that no other program writes to it, and try again"
        )
    if not num_tokens:
        raise UserError(
            f"{source}: it has no tokens, only {extent.num_characters} characters; use documents with words"
        )
    arrays = {part: {"dtype": dtypes[part].name} for part in PARTS}
    counts = {"num_characters": extent.num_characters, "num_unknown": num_unknown}
    return {"format": FORMAT, "tokenizer": tokenizer.hash, "digest": extent.digest, **counts, **arrays}


def batched(lines: Iterator[Line]) -> Iterator[list[Line]]:
    while batch := list(islice(lines, BATCH)):
        yield batch
