"""Encode the examples of a large part once, into the cache, with the length of each. Small parts are encoded in
memory."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from clew.core.errors import UserError
from clew.core.files import json_hash
from clew.data.caching.fingerprints import code_digest
from clew.data.caching.packing import Packer, Unpackable
from clew.data.caching.parts import Part, keep_parts, load_parts, write_part
from clew.data.caching.stores import BLOCK
from clew.tasks.learning import Encoding

LENGTHS = "lengths"
CHECKED = 8
"""Number of examples that are encoded again when cached ids are used: if the ids differ, the whole part is encoded
again."""
FACTS = ("max_length", "max_children", "reach")
"""Attributes of a body that affect how examples are encoded."""


def encode_part(task: Any, part: Part, encoding: Encoding, check: Callable[[Any, str], None] | None) -> Any:
    """Return the encoded examples of a part, from the cache if they are there. `check(encoded, id)` refuses an
    example that the task cannot read."""
    key = encoding_key(task, part, encoding)
    folder = None if key is None else Path(encoding.cache) / key
    if folder is not None and (loaded := load_parts(folder)) is not None:
        cached = loaded[0][encoding.name]
        if agrees(task, part, cached):
            return cached
        shutil.rmtree(folder, ignore_errors=True)
    lengths: list[np.ndarray] = []
    encoded = write_part(encoded_blocks(task, part, encoding, check, lengths), Path(encoding.cache))
    if not isinstance(encoded, Part):
        return encoded
    encoded.arrays[LENGTHS] = np.concatenate(lengths)
    return encoded if folder is None else keep_parts(folder, {encoding.name: encoded})[encoding.name]


def encoded_blocks(
    task: Any, part: Part, encoding: Encoding, check: Callable[[Any, str], None] | None, lengths: list[np.ndarray]
) -> Iterator[Any]:
    """Yield the encoded examples; their lengths are appended to `lengths` after each block."""
    for start in range(0, len(part), BLOCK):
        if encoding.progress is not None:
            encoding.progress(start, len(part))
        examples = part[start : start + BLOCK]
        encoded = task.encode(examples)
        sides = [task.lengths(each) for each in encoded]
        lengths.append(np.array(sides, np.int32).reshape(len(sides), -1))
        assert lengths[-1].shape[1] == lengths[0].shape[1], "all examples of a task have as many sides"
        if check is not None:
            for example, each in zip(examples, encoded, strict=True):
                check(each, example.id)
        yield from encoded
        part.store.release_pages()
    if encoding.progress is not None:
        encoding.progress(len(part), len(part))


def encoding_key(task: Any, part: Part, encoding: Encoding) -> str | None:
    """Return the hash of everything that the ids of a part's examples depend on; None if it cannot be determined."""
    readers = [kind for kind in type(task).__mro__ if kind is not object]
    code = code_digest(readers)
    if part.key is None or not encoding.vocabularies or code is None:
        return None
    hashes = {role: vocabulary.hash for role, vocabulary in encoding.vocabularies.items()}
    body = {name: getattr(task.body, name, None) for name in FACTS}
    about = [
        part.key,
        type(task).__qualname__,
        task.config.model_dump(mode="json"),
        hashes,
        body,
        encoding.to_train,
        code,
    ]
    return json_hash(about)[:32]


def agrees(task: Any, part: Part, encoded: Part) -> bool:
    """Whether the first examples still have the same ids."""
    try:
        return len(part) == len(encoded) and Packer().pack(list(task.encode(part[:CHECKED]))) == Packer().pack(
            encoded[:CHECKED]
        )
    except (Unpackable, UserError):
        return False
