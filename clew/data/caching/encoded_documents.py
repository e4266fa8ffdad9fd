"""Documents encoded once, into memory maps that are found again by what the documents and the tokenizer are.

Four files an encoding: KEY.tokens, the ids of all sentences; KEY.sentences, where each begins among them, and the end;
KEY.documents, with which sentence each document begins, and the end; and KEY.json, written last, which says what is in
them.
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
from clew.data.documents import Documents, Line, measure
from clew.data.files.extents import Extent, Measuring
from clew.data.files.measures import forget, measured
from clew.text.tokenizer import Tokenizer

FORMAT = 2
BATCH = 1024
PARTS = ("tokens", "sentences", "documents")

Progress = Callable[[int, int], None]
"""Called with the characters done and the characters in all."""


@dataclass(frozen=True, eq=False)
class EncodedDocuments:
    """Sentence s is tokens[sentences[s] : sentences[s + 1]], and document d the sentences documents[d] to documents[d +
    1]."""

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
    """The ids of documents, from the cache where they are there and whole."""
    extent = measured(source, cache, measure)
    key = hashlib.sha256(f"documents {FORMAT} {extent.digest} {tokenizer.hash}".encode()).hexdigest()[:32]
    path = Path(cache) / f"{key}.json"
    found = load(path)
    if found is None:
        try:
            private_folder(path.parent)
            write(path, source, extent, tokenizer, progress)
        except OSError as error:
            raise UserError(
                f"the encoded documents cannot be kept in {cache}: {error.strerror or error}; make room there, allow"
                " writing to it, or name another folder in the environment variable CLEW_CACHE"
            ) from None
        except UserError:
            forget(source, cache)
            raise
        found = load(path)
        assert found is not None, f"{path} cannot be read back"
    return found


def load(path: Path) -> EncodedDocuments | None:
    """The encoding at a path; None where there is none, or part of one, or a changed one."""
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
        is_small = sum(about[part]["size"] for part in PARTS) <= HASHED
        if not all(is_whole(path.parent, about[part], hashed=is_small) for part in PARTS):
            return None
        tokens, sentences, documents = (
            np.memmap(path.with_suffix(f".{part}"), about[part]["dtype"], "r") for part in PARTS
        )
        return EncodedDocuments(
            tokens, sentences, documents, about["num_characters"], about["num_unknown"], about["digest"]
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write(path: Path, source: Documents, extent: Extent, tokenizer: Tokenizer, progress: Progress | None) -> None:
    """All files, each written aside and renamed; two processes that do it at once write the same."""
    aside = {part: path.with_suffix(f".{part}.partial-{os.getpid()}") for part in (*PARTS, "json")}
    try:
        about: dict[str, Any] = write_arrays(aside, source, extent, tokenizer, progress)
        for part in PARTS:
            with aside[part].open("rb") as file:
                about[part]["sha256"] = hashlib.file_digest(file, "sha256").hexdigest()
            final = path.with_suffix(f".{part}")
            aside[part].replace(final)
            about[part] |= {"file": final.name, "size": final.stat().st_size, "changed": final.stat().st_mtime_ns}
        write_private(aside["json"], json.dumps(about, indent=1))
        aside["json"].replace(path)
    finally:
        for left in aside.values():
            with suppress(OSError):
                left.unlink()


def write_arrays(
    paths: dict[str, Path], source: Documents, extent: Extent, tokenizer: Tokenizer, progress: Progress | None
) -> dict[str, Any]:
    """The three arrays; what the JSON says of them. The documents must be those that were measured."""
    dtypes = {
        "tokens": np.dtype(np.uint16 if tokenizer.vocabulary < 2**16 else np.uint32),
        "sentences": np.dtype(np.int64),
    }
    dtypes["documents"] = dtypes["sentences"]
    num_tokens = num_sentences = num_unknown = 0
    opens = False
    measuring = Measuring()
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
                opens = opens or line.opens
                if not encoded:  # of characters that the tokenizer drops
                    continue
                if opens:
                    firsts.append(num_sentences + len(starts))
                    opens = False
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
        raise UserError(f"{source}: it changed while it was read; let no other program write there and try again")
    if not num_tokens:
        raise UserError(
            f"{source}: there is no token in its {extent.num_characters} characters; give documents with words in them"
        )
    arrays = {part: {"dtype": dtypes[part].name} for part in PARTS}
    counts = {"num_characters": extent.num_characters, "num_unknown": num_unknown}
    return {"format": FORMAT, "tokenizer": tokenizer.hash, "digest": extent.digest, **counts, **arrays}


def batched(lines: Iterator[Line]) -> Iterator[list[Line]]:
    while batch := list(islice(lines, BATCH)):
        yield batch
