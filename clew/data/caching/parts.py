"""Parts of the data: a list where they are small, and a `Part` on disk where they are large. Both are sequences, and
equal ones.

`gather` decides which it is while examples are read, `take` chooses some of a part, `keep_parts` and `load_parts` put
parts into the cache and find them again, and `remembered` keeps what takes a pass over all examples to find out.
"""

import json
import math
import os
import shutil
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np

from clew.core.files import cache_folder, write_private
from clew.data.caching.packing import Packer, Unpackable
from clew.data.caching.stores import (
    BLOCK,
    HashedFile,
    Store,
    StoreWriter,
    folder_aside,
    in_range,
    keeping,
    mapped,
    removed_after_errors,
)
from clew.data.caching.verified import DAMAGE, HASHED, Entry, digest, is_whole

T = TypeVar("T")

FORMAT = 2
INDEX, NUMBERS = "index.json", "numbers"
LARGE = 2**24
"""Bytes of packed examples from which a part is on disk; as Python objects they take about five times as much."""
MEASURED = 64
"""Every so many examples one is packed to see how large they are."""
ATTEMPTS = 5
"""How often a folder is put in place while other processes do the same."""


class Part(Sequence[Any]):
    """Rows of a store, all of them or those of some `numbers`. `arrays` are what is known of each row besides, such as
    its lengths."""

    def __init__(
        self,
        store: Store,
        numbers: np.ndarray | None = None,
        arrays: Mapping[str, np.ndarray] | None = None,
        folder: Path | None = None,
        name: str = "",
    ):
        self.store, self.numbers, self.arrays = store, numbers, dict(arrays or {})
        self.folder, self.name = folder, name

    def __len__(self) -> int:
        return len(self.store) if self.numbers is None else len(self.numbers)

    @overload
    def __getitem__(self, row: int) -> Any: ...
    @overload
    def __getitem__(self, row: slice) -> list[Any]: ...
    def __getitem__(self, row: int | slice) -> Any:
        if self.numbers is None:
            return self.store[row]
        if isinstance(row, slice):
            return self.store.take(self.numbers[row])
        return self.store[self.numbers[in_range(row, len(self))]]

    def __iter__(self) -> Iterator[Any]:
        for start in range(0, len(self), BLOCK):
            yield from self[start : start + BLOCK]
            self.store.give_back()

    @property
    def key(self) -> str | None:
        """What tells this part from any other; None for one that is not in the cache."""
        return None if self.folder is None else f"{self.folder.name} {self.name}"


def gather(examples: Iterable[T], *, large: int | None = None, cache: Path | None = None) -> Sequence[T]:
    """The examples of an iterator: a list, or a part on disk where they are many and made of strings and numbers
    alone."""
    large = LARGE if large is None else large
    packer, held, size = Packer(), list[T](), 0
    rest = iter(examples)
    for number, example in enumerate(rest):
        held.append(example)
        if number % MEASURED == 0:
            try:
                size += len(packer.pack(example)) * MEASURED
            except Unpackable:
                return [*held, *rest]
        if size > large:
            held.reverse()
            return write_part(chain(emptied(held), rest), cache)
    return held


def emptied(held: list[T]) -> Iterator[T]:
    """From the last to the first, each let go of."""
    while held:
        yield held.pop()


def write_part(examples: Iterator[Any], cache: Path | None = None) -> Sequence[Any]:
    """All examples on disk, in a folder that goes with the part; a list where one of them cannot be packed."""
    folder = folder_aside(cache_folder() if cache is None else cache)
    odd = []
    with removed_after_errors(folder), StoreWriter(folder) as writer:
        for example in examples:
            try:
                writer.add(example)
            except Unpackable:
                odd.append(example)
                break
        store = Store(folder, writer.close())
    store.temporary = weakref.finalize(store, shutil.rmtree, folder, ignore_errors=True)
    return [*store, *odd, *examples] if odd else Part(store)


def take(examples: Sequence[T], rows: np.ndarray) -> Sequence[T]:
    """Some of the examples, by their numbers."""
    if isinstance(examples, Part):
        return Part(examples.store, rows.astype(np.int64) if examples.numbers is None else examples.numbers[rows])
    return [examples[row] for row in rows.tolist()]


def keep_parts(place: Path, parts: Mapping[str, Sequence[Any]], extra: Any = None) -> dict[str, Sequence[Any]]:
    """The parts as they are found in the folder `place` from now on, where `extra` is kept with them. Parts that are
    all small, or that cannot be packed, stay as they are."""
    if not any(isinstance(part, Part) for part in parts.values()):
        return dict(parts)
    written = {
        name: part if isinstance(part, Part) else write_part(iter(part), place.parent) for name, part in parts.items()
    }
    drafts = {name: part for name, part in written.items() if isinstance(part, Part)}
    stores = list({id(part.store): part.store for part in drafts.values()}.values())
    if len(drafts) < len(parts) or any(store.temporary is None for store in stores):
        return dict(parts)
    aside = folder_aside(place.parent)
    with removed_after_errors(aside):
        described = {}
        for name, part in drafts.items():
            arrays = {**part.arrays, **({} if part.numbers is None else {NUMBERS: part.numbers})}
            kept = {key: write_array(aside / f"{name}.{key}", array) for key, array in arrays.items()}
            described[name] = {"store": stores.index(part.store), "arrays": kept}
        with keeping(place.parent):
            for number, store in enumerate(stores):
                assert store.temporary is not None
                store.temporary.detach()
                store.close()
                store.folder.rename(aside / str(number))
            about = {"format": FORMAT, "stores": [store.about for store in stores], "parts": described, "extra": extra}
            write_private(aside / INDEX, json.dumps({**about, "sha256": digest(about)}, indent=1))
            put_in_place(aside, place)
    found = load_parts(place)
    assert found is not None, f"{place} cannot be read back"
    return dict(found[0])


def put_in_place(aside: Path, place: Path) -> None:
    """Renames a finished folder, unless another process was faster; one that is damaged gives way."""
    for _ in range(ATTEMPTS):
        with suppress(OSError):
            aside.rename(place)
            return
        if load_parts(place) is not None:
            shutil.rmtree(aside, ignore_errors=True)
            return
        shutil.rmtree(place, ignore_errors=True)
    aside.rename(place)


def load_parts(place: Path) -> tuple[dict[str, Part], Any] | None:
    """The parts in a folder, and what was kept with them; None where there are none, or damaged ones."""
    try:
        about = json.loads((place / INDEX).read_text(encoding="utf-8"))
        if about.pop("sha256") != digest(about) or about["format"] != FORMAT:
            return None
        files = [
            (place / str(number), entry) for number, store in enumerate(about["stores"]) for entry in store["files"]
        ]
        files += [(place, entry) for part in about["parts"].values() for entry in part["arrays"].values()]
        is_small = sum(entry["size"] for _, entry in files) <= HASHED
        if not all(is_whole(folder, entry, hashed=is_small) for folder, entry in files):
            return None
        stores = [Store(place / str(number), each) for number, each in enumerate(about["stores"])]
        parts = {}
        for name, part in about["parts"].items():
            arrays = {key: read_array(place, entry) for key, entry in part["arrays"].items()}
            parts[name] = Part(stores[part["store"]], arrays.pop(NUMBERS, None), arrays, place, name)
        return parts, about["extra"]
    except DAMAGE:
        return None


def write_array(path: Path, array: np.ndarray) -> Entry:
    with HashedFile(path) as file:
        file.write(np.ascontiguousarray(array).tobytes())
        return {**file.close(), "dtype": array.dtype.str, "shape": list(array.shape)}


def read_array(folder: Path, entry: Entry) -> np.ndarray:
    found = mapped(folder / entry["file"], np.dtype(entry["dtype"]), math.prod(entry["shape"]))
    return found.reshape(entry["shape"])


def remembered(part: Sequence[Any], name: str, make: Callable[[], T]) -> T:
    """What `make` gives, made of JSON. Of a part in the cache it is kept beside the part, so that a pass over all
    examples is made once."""
    if not isinstance(part, Part) or part.folder is None:
        return make()
    about = {"format": FORMAT, "part": part.name, "name": name}
    path = part.folder / f"{digest(about)[:32]}.json"
    with suppress(*DAMAGE):
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept.pop("sha256") == digest(kept) and {key: kept.get(key) for key in about} == about:
            found: T = kept["value"]
            return found
    value = make()
    kept = {**about, "value": value}
    with suppress(OSError):  # what cannot be remembered is found out again
        aside = path.with_suffix(f".partial-{os.getpid()}")
        write_private(aside, json.dumps({**kept, "sha256": digest(kept)}))
        aside.replace(path)
    return value
