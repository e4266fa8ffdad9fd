"""Prefix cache: states of single rows, keyed by the tokens that they have read, so that shared prefixes are read once.
Knows no model.

A prompt is read in blocks of tokens, and reading can resume at the end of any block. An entry holds the state after the
last whole block of a prompt. Parts of a state that can be rewound (`core.rewinding`), such as a buffer of keys and
values, serve every shorter prefix too; parts that each step overwrites, such as the state of an LSTM, are copied for
every block. When more than `most_bytes` are held, the least recently used entries are dropped. Entries lie side by side
in slabs, whose bytes count, and so do the Python objects that name them.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from itertools import repeat
from typing import Any, NamedTuple

import torch
from torch import Tensor

from clew.core.rewinding import REWIND
from clew.core.state import leaves, map_parts, with_leaves
from clew.core.types import State
from clew.decoding.slabs import Place, Slabs

Overwritten = list[Tensor]

SLAB = 2**20
"""Bytes of a slab, if that is at most a sixteenth of the cache."""
ENTRY_BYTES, BLOCK_BYTES = 850, 260
"""The bytes of Python objects of an entry, and of each of its blocks, as measured for the state of two LSTM layers."""
NOTHING = torch.empty(0)
"""Stands for a tensor of a state in the outline of the state."""


class Shape(NamedTuple):
    """The structure of one row's state, with `NOTHING` for each of its tensors, and the part of each that is held."""

    outline: State
    parts: list[tuple[slice, ...]]
    nbytes: int


class Entry(NamedTuple):
    """One row's state after the block `digests[-1]`, and copies of its overwritten parts after each of the blocks."""

    outline: State
    tensors: Place
    digests: list[bytes]
    overwritten: list[Place]
    before: int
    """Number of blocks before the first of `digests`."""

    @property
    def state(self) -> State:
        return with_leaves(self.outline, self.tensors.tensors)

    @property
    def object_bytes(self) -> int:
        """An estimate of the memory of the Python objects of an entry."""
        return ENTRY_BYTES + BLOCK_BYTES * len(self.digests)


class Prefixes:
    """States keyed by the blocks of tokens that they have read. `hits` counts tokens that did not have to be read
    again."""

    def __init__(self, block: int, most_bytes: int):
        self.block = block
        self.most_bytes = most_bytes
        self.slabs = Slabs(min(SLAB, most_bytes // 16))
        self.object_bytes = 0
        self.hits = 0
        self.entries: OrderedDict[bytes, Entry] = OrderedDict()
        self.places: dict[bytes, tuple[bytes, int]] = {}
        """From the digest of a block to its entry and its index there."""

    @property
    def num_bytes(self) -> int:
        """The bytes that are held."""
        return self.slabs.bytes + self.object_bytes

    def digests(self, tokens: Sequence[int]) -> list[bytes]:
        """Return a digest of all tokens up to the end of each whole block."""
        chain, digest = [], b""
        for start in range(0, len(tokens) - self.block + 1, self.block):
            digest = hashlib.blake2b(
                digest + repr(tokens[start : start + self.block]).encode(), digest_size=16
            ).digest()
            chain.append(digest)
        return chain

    def find(self, digests: Sequence[bytes]) -> tuple[int, State] | None:
        """Find the longest held prefix: its number of blocks, and the state after them. The state shares memory with
        the cache; copy it."""
        for count in range(len(digests), 0, -1):
            if (place := self.places.get(digests[count - 1])) is not None:
                key, number = place
                self.entries.move_to_end(key)
                entry = self.entries[key]
                overwritten = entry.overwritten[number].tensors
                return count, rewound(entry.state, (entry.before + number + 1) * self.block, overwritten)
        return None

    def __contains__(self, digest: bytes) -> bool:
        return digest in self.places

    def put(
        self, state: State, row: int, shape: Shape, digests: Sequence[bytes], overwritten: Sequence[Overwritten]
    ) -> None:
        """Hold a copy of one row of a state after the row's last block, cut to a shape. `overwritten` belongs to the
        last blocks."""
        before = len(digests) - len(overwritten)
        new_digests = list(digests[before:])
        tensors = [leaf[(slice(row, row + 1), *part)] for leaf, part in zip(leaves(state), shape.parts, strict=True)]
        size = sum(leaf.nbytes for leaf in (*tensors, *(leaf for copies in overwritten for leaf in copies)))
        if not new_digests or size > self.most_bytes or new_digests[-1] in self.places:
            return
        key = new_digests[-1]
        self.entries[key] = entry = Entry(
            shape.outline,
            self.slabs.put(tensors),
            new_digests,
            [self.slabs.put(copies) for copies in overwritten],
            before,
        )
        self.object_bytes += entry.object_bytes
        for number, digest in enumerate(new_digests):
            self.places.setdefault(digest, (key, number))
        while self.num_bytes > self.most_bytes and self.entries:
            self.drop_oldest()

    def drop_oldest(self) -> None:
        key, entry = self.entries.popitem(last=False)
        for place in (entry.tensors, *entry.overwritten):
            self.slabs.drop(place)
        self.object_bytes -= entry.object_bytes
        for digest in entry.digests:  # two entries may have read the same block
            if digest in self.places and self.places[digest][0] == key:
                del self.places[digest]


def overwritten_of(state: State, row: int) -> Overwritten:
    """Copy one row of the leaves that rewinding cannot restore: those outside of parts that can be rewound to any
    position."""
    copies: Overwritten = []

    def keep(leaf: Tensor) -> None:
        copies.append(leaf[row : row + 1].clone())

    def keep_part(part: Any) -> None:
        for leaf in leaves(part) if forgets_little(part) else ():
            keep(leaf)

    map_parts(REWIND, keep_part, keep, state)
    return copies


def forgets_little(part: Any) -> bool:
    """Whether a part can only be rewound by a few positions, such as the ring of a window: such parts have a
    `check_rewind`."""
    return hasattr(part, "check_rewind")


def rewound(state: State, length: int, overwritten: Overwritten) -> State:
    """Return one row's state as it was after `length` positions."""
    kept = iter(overwritten)

    def back(part: Any) -> Any:
        if forgets_little(part):
            return with_leaves(part, [next(kept) for _ in leaves(part)])
        return part.rewind(torch.full_like(part.lengths, length))

    return map_parts(REWIND, back, lambda _: next(kept), state)


def shape_of(state: State) -> Shape:
    """Return the shape of a state of one row."""
    parts = [tuple(slice(size) for size in leaf.shape[1:]) for leaf in leaves(state)]
    return Shape(with_leaves(state, repeat(NOTHING)), parts, sum(leaf.nbytes for leaf in leaves(state)))
