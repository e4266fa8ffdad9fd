"""Ids in many files, read through one array that loads none of them whole. Knows no text and no tokenizer.

A shard file has its ids first and then, from the next multiple of four bytes on, where documents end in it, as 32-bit integers.
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
    num_ends: int


class Shards:
    """The ids of all shards one after the other; indexed by a place, a slice, or an array of places of any shape."""

    def __init__(self, shards: Sequence[Shard], dtype: str):
        self.shards = list(shards)
        self.dtype = np.dtype(dtype)
        self.edges = np.cumsum([0, *(shard.num_tokens for shard in self.shards)])
        self.ends_before = np.cumsum([0, *(shard.num_ends for shard in self.shards)])
        self.mapped: OrderedDict[int, tuple[np.ndarray, np.ndarray]] = OrderedDict()

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
        """The number of each place's document, from 1 on: as many documents end before it, and its own."""
        found = np.empty(places.size, np.int64)
        for number, here, local in self.located(places.ravel()):
            found[here] = self.ends_before[number] + 1 + np.searchsorted(self.map(number)[1], local, side="right")
        return found.reshape(places.shape)

    @property
    def boundaries(self) -> np.ndarray:
        """The places whose token is of another document than the token before."""
        ends = [self.edges[number] + np.asarray(self.map(number)[1], np.int64) for number in range(len(self.shards))]
        inside = np.unique(np.concatenate(ends))
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
        """A shard's ids and ends."""
        if number in self.mapped:
            self.mapped.move_to_end(number)
            return self.mapped[number]
        shard = self.shards[number]
        content = np.memmap(shard.path, dtype=np.uint8, mode="r") if shard.num_tokens or shard.num_ends else np.empty(0, np.uint8)
        size = shard.num_tokens * self.dtype.itemsize
        start = size + padding(size)
        ends = content[start : start + 4 * shard.num_ends]
        self.mapped[number] = content[:size].view(self.dtype), ends.view(np.uint32)
        if len(self.mapped) > OPEN:
            self.mapped.popitem(last=False)
        return self.mapped[number]


def padding(size: int) -> int:
    """Bytes between ids of this size and the ends."""
    return -size % 4
