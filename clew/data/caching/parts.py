"""The splits of a dataset as sequences of examples: a list if small, a `Part` on disk if large.

`gather` chooses between the two while examples are read, `take` selects rows, `keep_parts` and `load_parts` store parts
in the cache and load them, and `remembered` caches values that need a pass over all examples.
"""

import json
import math
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np

from clew.core.files import cache_folder, json_hash, removed_with, write_private
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
from clew.data.caching.verified import DAMAGE, HASHED, Entry, is_whole

T = TypeVar("T")

FORMAT = 2
INDEX, NUMBERS = "index.json", "numbers"
LARGE = 2**24
"""Parts of more packed bytes than this are kept on disk; as Python objects they take about five times as much."""
MEASURED = 64
"""One in this many examples is packed, to estimate the total size."""
ATTEMPTS = 5
"""How often a finished folder is renamed while other processes do the same."""


class Part(Sequence[Any]):
    """All rows of a store, or those of the given `numbers`. `arrays` hold further values for each row, such as its
    length."""

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
            self.store.release_pages()

    @property
    def key(self) -> str | None:
        """A string that identifies this part; None if it is not in the cache."""
        return None if self.folder is None else f"{self.folder.name} {self.name}"


def gather(examples: Iterable[T], *, large: int | None = None, cache: Path | None = None) -> Sequence[T]:
    """Collect examples: in a list, or in a part on disk if they are large and contain only strings and numbers."""
    large = LARGE if large is None else large
    packer, in_memory, size = Packer(), list[T](), 0
    rest = iter(examples)
    for number, example in enumerate(rest):
        in_memory.append(example)
        if number % MEASURED == 0:
            try:
                size += len(packer.pack(example)) * MEASURED
            except Unpackable:
                return [*in_memory, *rest]
        if size > large:
            in_memory.reverse()
            return write_part(chain(pop_all(in_memory), rest), cache)
    return in_memory


def pop_all(items: list[T]) -> Iterator[T]:
    """Yield the items from last to first and remove each from the list, so that its memory is freed."""
    while items:
        yield items.pop()


def write_part(examples: Iterator[Any], cache: Path | None = None) -> Sequence[Any]:
    """Write examples to a temporary folder, which is removed with the part; return a list if one cannot be packed."""
    folder = folder_aside(cache_folder() if cache is None else cache)
    unpackable = []
    with removed_after_errors(folder), StoreWriter(folder) as writer:
        for example in examples:
            try:
                writer.add(example)
            except Unpackable:
                unpackable.append(example)
                break
        store = Store(folder, writer.close())
    store.temporary = removed_with(store, folder)
    return [*store, *unpackable, *examples] if unpackable else Part(store)


def examples_at(examples: Sequence[T], rows: np.ndarray) -> Sequence[T]:
    """Select examples by their row numbers."""
    if isinstance(examples, Part):
        return Part(examples.store, rows.astype(np.int64) if examples.numbers is None else examples.numbers[rows])
    return [examples[row] for row in rows.tolist()]


def keep_parts(place: Path, parts: Mapping[str, Sequence[Any]], extra: Any = None) -> dict[str, Sequence[Any]]:
    """Store parts, with a JSON value `extra`, in the folder `place`, and return the stored parts.

    Return the parts unchanged if all are small or if one cannot be packed.
    """
    if not any(isinstance(part, Part) for part in parts.values()):
        return dict(parts)
    written = {
        name: part if isinstance(part, Part) else write_part(iter(part), place.parent) for name, part in parts.items()
    }
    drafts = {name: part for name, part in written.items() if isinstance(part, Part)}
    stores = list({id(part.store): part.store for part in drafts.values()}.values())
    if len(drafts) < len(parts) or any(store.temporary is None for store in stores):
        return dict(parts)
    partial = folder_aside(place.parent)
    with removed_after_errors(partial):
        descriptions = {}
        for name, part in drafts.items():
            arrays = {**part.arrays, **({} if part.numbers is None else {NUMBERS: part.numbers})}
            entries = {key: write_array(partial / f"{name}.{key}", array) for key, array in arrays.items()}
            descriptions[name] = {"store": stores.index(part.store), "arrays": entries}
        with keeping(place.parent):
            for number, store in enumerate(stores):
                assert store.temporary is not None
                store.temporary.detach()
                store.close()
                store.folder.rename(partial / str(number))
            index = {
                "format": FORMAT,
                "stores": [store.about for store in stores],
                "parts": descriptions,
                "extra": extra,
            }
            write_private(partial / INDEX, json.dumps({**index, "sha256": json_hash(index)}, indent=1))
            put_in_place(partial, place)
    loaded = load_parts(place)
    assert loaded is not None, f"{place} cannot be read back"
    return dict(loaded[0])


def put_in_place(partial: Path, place: Path) -> None:
    """Rename a finished folder, unless another process was faster. A damaged folder in its place is removed."""
    for _ in range(ATTEMPTS):
        with suppress(OSError):
            partial.rename(place)
            return
        if load_parts(place) is not None:
            shutil.rmtree(partial, ignore_errors=True)
            return
        shutil.rmtree(place, ignore_errors=True)
    partial.rename(place)


def load_parts(place: Path) -> tuple[dict[str, Part], Any] | None:
    """Load the parts in a folder and the `extra` value stored with them; return None if missing or damaged."""
    try:
        index = json.loads((place / INDEX).read_text(encoding="utf-8"))
        if index.pop("sha256") != json_hash(index) or index["format"] != FORMAT:
            return None
        files = [
            (place / str(number), entry) for number, store in enumerate(index["stores"]) for entry in store["files"]
        ]
        files += [(place, entry) for part in index["parts"].values() for entry in part["arrays"].values()]
        is_small = sum(entry["size"] for _, entry in files) <= HASHED
        if not all(is_whole(folder, entry, hashed=is_small) for folder, entry in files):
            return None
        stores = [Store(place / str(number), each) for number, each in enumerate(index["stores"])]
        parts = {}
        for name, part in index["parts"].items():
            arrays = {key: read_array(place, entry) for key, entry in part["arrays"].items()}
            parts[name] = Part(stores[part["store"]], arrays.pop(NUMBERS, None), arrays, place, name)
        return parts, index["extra"]
    except DAMAGE:
        return None


def write_array(path: Path, array: np.ndarray) -> Entry:
    with HashedFile(path) as file:
        file.write(np.ascontiguousarray(array).tobytes())
        return {**file.close(), "dtype": array.dtype.str, "shape": list(array.shape)}


def read_array(folder: Path, entry: Entry) -> np.ndarray:
    array = mapped(folder / entry["file"], np.dtype(entry["dtype"]), math.prod(entry["shape"]))
    return array.reshape(entry["shape"])


def remembered(part: Sequence[Any], name: str, make: Callable[[], T]) -> T:
    """Return the JSON value that `make` computes. If the part is in the cache, the value is stored in the same folder
    and computed only once."""
    if not isinstance(part, Part) or part.folder is None:
        return make()
    key = {"format": FORMAT, "part": part.name, "name": name}
    path = part.folder / f"{json_hash(key)[:32]}.json"
    with suppress(*DAMAGE):
        content = json.loads(path.read_text(encoding="utf-8"))
        if content.pop("sha256") == json_hash(content) and {field: content.get(field) for field in key} == key:
            cached: T = content["value"]
            return cached
    value = make()
    content = {**key, "value": value}
    with suppress(OSError):  # if it cannot be stored, it is computed again next time
        partial = path.with_suffix(f".partial-{os.getpid()}")
        write_private(partial, json.dumps({**content, "sha256": json_hash(content)}))
        partial.replace(path)
    return value
