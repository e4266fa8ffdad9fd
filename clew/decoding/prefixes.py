"""What prompts that begin alike have in common, read once: states of single rows by the tokens that they have read. Knows no model.

A prompt is read in blocks of tokens, and each block's end is a place to go on from. An entry holds the state behind the last whole block
of a prompt. Parts of a state that can forget (`core.rewinding`), such as a buffer of keys and values, serve every shorter prefix too; of
what each step overwrites, such as the state of an LSTM, there is a copy for every block. Where more than `most_bytes` are held, the entries
that were taken longest ago go.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from clew.core.rewinding import REWIND
from clew.core.state import leaves, map_parts, map_tree, with_leaves
from clew.core.types import State

Overwritten = list[Tensor]


class Entry(NamedTuple):
    """One row's state behind `digests[-1]`, and behind each of the blocks what a step overwrites."""

    state: State
    digests: list[bytes]
    overwritten: list[Overwritten]
    before: int
    """Blocks before the first of them."""
    bytes: int


class Prefixes:
    """States by the blocks of tokens that they have read. `hits` counts tokens that did not have to be read."""

    def __init__(self, block: int, most_bytes: int):
        self.block = block
        self.most_bytes = most_bytes
        self.bytes = 0
        self.hits = 0
        self.entries: OrderedDict[bytes, Entry] = OrderedDict()
        self.places: dict[bytes, tuple[bytes, int]] = {}
        """By a block's digest an entry, and which of its blocks that is."""

    def digests(self, tokens: Sequence[int]) -> list[bytes]:
        """A digest for each whole block, of all tokens up to its end."""
        found, digest = [], b""
        for start in range(0, len(tokens) - self.block + 1, self.block):
            digest = hashlib.blake2b(digest + repr(tokens[start : start + self.block]).encode(), digest_size=16).digest()
            found.append(digest)
        return found

    def find(self, digests: Sequence[bytes]) -> tuple[int, State] | None:
        """The most blocks that are held, and the state behind them, which shares memory with what is held: it is to be copied."""
        for count in range(len(digests), 0, -1):
            if (place := self.places.get(digests[count - 1])) is not None:
                key, number = place
                self.entries.move_to_end(key)
                entry = self.entries[key]
                return count, gone_back(entry.state, (entry.before + number + 1) * self.block, entry.overwritten[number])
        return None

    def __contains__(self, digest: bytes) -> bool:
        return digest in self.places

    def put(self, state: State, digests: Sequence[bytes], overwritten: Sequence[Overwritten]) -> None:
        """Holds the state of one row, which nothing else writes, behind its last block. `overwritten` are those of its last blocks."""
        before = len(digests) - len(overwritten)
        behind = list(digests[before:])
        size = sum(leaf.nbytes for leaf in (*leaves(state), *(leaf for some in overwritten for leaf in some)))
        if not behind or size > self.most_bytes or behind[-1] in self.places:
            return
        key = behind[-1]
        self.entries[key] = Entry(state, behind, list(overwritten), before, size)
        self.bytes += size
        for number, digest in enumerate(behind):
            self.places.setdefault(digest, (key, number))
        while self.bytes > self.most_bytes:
            self.drop_oldest()

    def drop_oldest(self) -> None:
        key, entry = self.entries.popitem(last=False)
        self.bytes -= entry.bytes
        for digest in entry.digests:
            if self.places[digest][0] == key:
                del self.places[digest]


def overwritten_of(state: State, row: int) -> Overwritten:
    """What no rewinding brings back, of one row: copies of the leaves outside of parts that can forget any number of positions."""
    found: Overwritten = []

    def keep(leaf: Tensor) -> None:
        found.append(leaf[row : row + 1].clone())

    def keep_part(part: Any) -> None:
        for leaf in leaves(part) if forgets_little(part) else ():
            keep(leaf)

    map_parts(REWIND, keep_part, keep, state)
    return found


def forgets_little(part: Any) -> bool:
    """A part that cannot go back any number of positions, such as a window's ring, says so by a check."""
    return hasattr(part, "check_rewind")


def gone_back(state: State, length: int, overwritten: Overwritten) -> State:
    """One row's state as it was behind `length` positions."""
    kept = iter(overwritten)

    def back(part: Any) -> Any:
        if forgets_little(part):
            return with_leaves(part, [next(kept) for _ in leaves(part)])
        return part.rewind(torch.full_like(part.lengths, length))

    return map_parts(REWIND, back, lambda _: next(kept), state)


def trimmed(fresh: State, state: State) -> State:
    """What a fresh state has room for of another's rows."""

    def cut(leaf: Tensor, whole: Tensor) -> Tensor:
        return whole[(slice(None), *(slice(size) for size in leaf.shape[1:]))].clone()

    return map_tree(cut, fresh, state)
