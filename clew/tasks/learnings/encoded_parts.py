"""A large part's examples as ids, encoded once into the cache, with the length of each. Small parts are encoded in
memory."""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from clew.core.errors import UserError
from clew.data.caching.fingerprints import code_digest
from clew.data.caching.packing import Packer, Unpackable
from clew.data.caching.parts import Part, keep_parts, load_parts, write_part
from clew.data.caching.stores import BLOCK
from clew.tasks.learning import Encoding

LENGTHS = "lengths"
CHECKED = 8
"""Examples that are encoded again whenever kept ids are found: a model that reads otherwise encodes anew."""
FACTS = ("max_length", "max_children", "reach")
"""What a body may have that decides how examples are encoded."""


def encode_part(task: Any, part: Part, encoding: Encoding, check: Callable[[Any, str], None] | None) -> Any:
    """The encoded examples of a part, from the cache where they are there. `check(encoded, id)` refuses one that the
    task cannot read."""
    key = encoding_key(task, part, encoding)
    place = None if key is None else Path(encoding.cache) / key
    if place is not None and (kept := load_parts(place)) is not None:
        found = kept[0][encoding.name]
        if agrees(task, part, found):
            return found
        shutil.rmtree(place, ignore_errors=True)
    lengths: list[np.ndarray] = []
    encoded = write_part(encoded_blocks(task, part, encoding, check, lengths), Path(encoding.cache))
    if not isinstance(encoded, Part):
        return encoded
    encoded.arrays[LENGTHS] = np.concatenate(lengths)
    return encoded if place is None else keep_parts(place, {encoding.name: encoded})[encoding.name]


def encoded_blocks(
    task: Any, part: Part, encoding: Encoding, check: Callable[[Any, str], None] | None, lengths: list[np.ndarray]
) -> Iterator[Any]:
    """The encoded examples; their lengths are appended to `lengths` as each block is done."""
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
        part.store.give_back()
    if encoding.progress is not None:
        encoding.progress(len(part), len(part))


def encoding_key(task: Any, part: Part, encoding: Encoding) -> str | None:
    """What decides the ids of a part's examples; None where it cannot be told."""
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
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:32]


def agrees(task: Any, part: Part, encoded: Part) -> bool:
    """Whether the first examples are still encoded to the same ids."""
    try:
        return len(part) == len(encoded) and Packer().pack(list(task.encode(part[:CHECKED]))) == Packer().pack(
            encoded[:CHECKED]
        )
    except (Unpackable, UserError):
        return False
