"""Ids in many files, read through one array that loads none of them whole. Knows no text and no tokenizer.

A shard file has its ids first and then, from the next multiple of four bytes on, where documents but the first begin,
as 32-bit integers.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

OPEN = 128
"""Shards that are mapped at a time: each takes a file descriptor."""


class Shard(NamedTuple):
    path: Path
    num_tokens: int
    num_begins: int


class Shards:
    """The ids of all shards one after the other; indexed by a place, a slice, or an array of places of any shape.

    Where documents are `opened`, each but the first begins with the end of the one before, so that its first word is
    predicted too.
    """

    def __init__(self, shards: Sequence[Shard], dtype: str, opened: bool = False):
        self.opened = opened
        self.shards = list(shards)
        self.dtype = np.dtype(dtype)
        self.edges = np.cumsum([0, *(shard.num_tokens for shard in self.shards)])
        self.begins_before = np.cumsum([0, *(shard.num_begins for shard in self.shards)])
        self.mapped: OrderedDict[int, tuple[np.ndarray, np.ndarray]] = OrderedDict()

    @classmethod
    def of_arrays(cls, ids: np.ndarray, begins: np.ndarray, opened: bool = False) -> "Shards":
        """Ids that are in memory, and where documents but the first begin in them."""
        shards = cls([Shard(Path(), len(ids), len(begins))], ids.dtype.name, opened)
        shards.mapped[0] = ids, begins
        return shards

    def __len__(self) -> int:
        return int(self.edges[-1])

    def __getitem__(self, places: Any) -> np.ndarray:
        if isinstance(places, slice):
            places = np.arange(*places.indices(len(self)))
        places = np.asarray(places)
        if len(self.shards) == 1:
            return self.map(0)[0][places]
        found = np.empty(places.size, self.dtype)
        for number, here, local in self.located(places.ravel()):
            found[here] = self.map(number)[0][local]
        return found.reshape(places.shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        whole = np.concatenate([self.map(number)[0] for number in range(len(self.shards))])
        return whole if dtype is None else whole.astype(dtype)

    def documents(self, places: np.ndarray) -> np.ndarray:
        """The number of each place's document, from 1 on."""
        found = np.empty(places.size, np.int64)
        for number, here, local in self.located(places.ravel()):
            found[here] = self.begins_before[number] + 1 + np.searchsorted(self.map(number)[1], local, side="right")
        return found.reshape(places.shape)

    @property
    def boundaries(self) -> np.ndarray:
        """The places whose token is of another document than the token before."""
        begins = [self.edges[number] + np.asarray(self.map(number)[1], np.int64) for number in range(len(self.shards))]
        inside = np.unique(np.concatenate(begins))
        return inside[(inside > 0) & (inside < len(self))]

    def located(self, places: np.ndarray) -> Iterable[tuple[int, np.ndarray, np.ndarray]]:
        """For every shard that some places are in: its number, which they are, and where in it."""
        numbers = np.searchsorted(self.edges, places, side="right") - 1
        if places.size and (numbers.max() >= len(self.shards) or numbers.min() < 0):
            raise IndexError(f"a place outside the {len(self)} tokens")
        order = np.argsort(numbers, kind="stable")
        cuts = np.flatnonzero(np.diff(numbers[order])) + 1
        for here in np.split(order, cuts) if places.size else ():
            number = int(numbers[here[0]])
            yield number, here, places[here] - self.edges[number]

    def map(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """A shard's ids, and where documents begin in it."""
        if number in self.mapped:
            self.mapped.move_to_end(number)
            return self.mapped[number]
        shard = self.shards[number]
        content = (
            np.memmap(shard.path, dtype=np.uint8, mode="r")
            if shard.num_tokens or shard.num_begins
            else np.empty(0, np.uint8)
        )
        size = shard.num_tokens * self.dtype.itemsize
        start = size + padding(size)
        begins = content[start : start + 4 * shard.num_begins]
        self.mapped[number] = content[:size].view(self.dtype), begins.view(np.uint32)
        if len(self.mapped) > OPEN:
            self.mapped.popitem(last=False)
        return self.mapped[number]


def padding(size: int) -> int:
    """Bytes between ids of this size and what follows them."""
    return -size % 4
