"""Token ids in many files, read as one memory-mapped array. Knows no text and no tokenizer.

A shard file has its ids and then, from the next multiple of four bytes on, the positions where documents other than the
first begin, as 32-bit integers.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

OPEN = 128
"""The most shards that are mapped at a time, since each takes a file descriptor."""


class Shard(NamedTuple):
    path: Path
    num_tokens: int
    num_begins: int


class Shards:
    """The concatenated ids of all shards, indexed by a position, a slice, or an array of positions of any shape.

    With `opened`, each document but the first begins with the end token of the document before, so that its first word
    is predicted too.
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
        """Build from ids in memory and the positions where documents other than the first begin."""
        shards = cls([Shard(Path(), len(ids), len(begins))], ids.dtype.name, opened)
        shards.mapped[0] = ids, begins
        return shards

    def __len__(self) -> int:
        return int(self.edges[-1])

    def __getitem__(self, positions: Any) -> np.ndarray:
        if isinstance(positions, slice):
            positions = np.arange(*positions.indices(len(self)))
        positions = np.asarray(positions)
        if len(self.shards) == 1:
            return self.map(0)[0][positions]
        ids = np.empty(positions.size, self.dtype)
        for number, indices, local in self.locate(positions.ravel()):
            ids[indices] = self.map(number)[0][local]
        return ids.reshape(positions.shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        whole = np.concatenate([self.map(number)[0] for number in range(len(self.shards))])
        return whole if dtype is None else whole.astype(dtype)

    def documents(self, positions: np.ndarray) -> np.ndarray:
        """Return the document number of each position, counted from 1."""
        documents = np.empty(positions.size, np.int64)
        for number, indices, local in self.locate(positions.ravel()):
            begins = self.map(number)[1]
            documents[indices] = self.begins_before[number] + 1 + np.searchsorted(begins, local, side="right")
        return documents.reshape(positions.shape)

    @property
    def boundaries(self) -> np.ndarray:
        """The positions whose token belongs to another document than the token before."""
        begins = [self.edges[number] + np.asarray(self.map(number)[1], np.int64) for number in range(len(self.shards))]
        inside = np.unique(np.concatenate(begins))
        return inside[(inside > 0) & (inside < len(self))]

    def locate(self, positions: np.ndarray) -> Iterable[tuple[int, np.ndarray, np.ndarray]]:
        """Yield, for every shard that contains some of the positions: its number, the indices of these positions, and
        the positions within the shard."""
        numbers = np.searchsorted(self.edges, positions, side="right") - 1
        if positions.size and (numbers.max() >= len(self.shards) or numbers.min() < 0):
            raise IndexError(f"positions must be from 0 to {len(self) - 1}")
        order = np.argsort(numbers, kind="stable")
        cuts = np.flatnonzero(np.diff(numbers[order])) + 1
        for indices in np.split(order, cuts) if positions.size else ():
            number = int(numbers[indices[0]])
            yield number, indices, positions[indices] - self.edges[number]

    def map(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Return a shard's ids and the positions where documents begin in it, memory-mapped."""
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
    """Return the number of padding bytes after ids of this size in bytes."""
    return -size % 4
