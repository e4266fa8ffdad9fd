"""Caches of causal self-attention: the keys and values of the past, in one of three forms.

`Grown` is a new, longer tensor after each chunk: gradients flow through it, and it has no capacity limit. `Buffer` is
allocated once and written in place: shapes and addresses are fixed, so a step can be compiled or captured, but a call
invalidates the state passed to it. `Ring` is a buffer for windowed attention, which overwrites keys that no later
position can see.

When beams are reordered (`core.state.reorder`), the keys and values of a `Grown` or a `Ring` are copied. Those of a
`Buffer` stay in place, and a table maps each row to its slots. A row that has read n positions writes the next one into
its own storage, where no other row reads that position yet; earlier positions are never written again, so any number of
rows may share them.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from clew.core.errors import UserError
from clew.core.masks import Clock, Places, has_documents
from clew.core.modes import is_exporting
from clew.core.sight import Sight
from clew.core.state import map_tree
from clew.core.types import State

RING_CHUNK = 64
"""A windowed layer splits longer chunks into pieces of this many positions, so its ring needs only window + RING_CHUNK
slots."""


class Chunk(NamedTuple):
    """The places of a chunk's positions, the clock after it, its mask, and the window of its queries (None: no
    limit)."""

    places: Places
    clock: Clock
    mask: Tensor | None
    window: int | None

    @property
    def is_padded(self) -> bool:
        return self.mask is not None


class Past(NamedTuple):
    """What a chunk's queries attend to: keys and values (batch, heads, slots, head_dim) of the past and of the chunk
    itself, their positions in the row (batch, slots), which of them each query sees (None: all), and the cache for the
    next chunk."""

    keys: Tensor
    values: Tensor
    index: Tensor  # type: ignore[assignment]
    visible: Sight | None
    cache: State


def start_cache(keys: Tensor, values: Tensor, chunk: Chunk) -> Past:
    """Read the first chunk of a row: causal attention over itself, and a cache that grows."""
    places = chunk.places
    index = places.index.expand(keys.shape[0], -1) if chunk.is_padded else None
    cache = Grown(keys, values, index, chunk.clock)
    documents = has_documents(chunk.mask)
    visible = Sight(places, cache.key_index, True, chunk.window, documents, padded=chunk.is_padded, aligned=True)
    return Past(keys, values, cache.key_index, visible, cache)


def whole(keys: Tensor, values: Tensor, chunk: Chunk) -> Past:
    """Read a whole sequence, not causally: every position sees the real positions of its document, within the
    window."""
    places, documents = chunk.places, has_documents(chunk.mask)
    key_start = places.start if documents else None
    visible = Sight(
        places, places.index, False, chunk.window, documents, padded=chunk.is_padded, aligned=True, key_start=key_start
    )
    return Past(keys, values, places.index, visible, None)


class Grown(NamedTuple):
    """A cache that grows with each chunk. `index` is the position of each key in its row, -1 on padding; None means
    that key k is at position k in every row."""

    keys: Tensor  # (batch, heads, slots, head_dim)
    values: Tensor
    index: Tensor | None  # type: ignore[assignment]  # (batch, slots)
    clock: Clock

    def extend(self, keys: Tensor, values: Tensor, chunk: Chunk) -> Past:
        # An exported program must work for a past of any length, so export must not trace an empty one as a special
        # case.
        if not is_exporting() and bool(self.keys.shape[2] == 0):
            return start_cache(keys, values, chunk)
        index = None
        if chunk.is_padded or self.index is not None:
            index = torch.cat([self.key_index, chunk.places.index.expand(keys.shape[0], -1)], 1)
        cache = Grown(torch.cat([self.keys, keys], 2), torch.cat([self.values, values], 2), index, chunk.clock)
        visible, index = None, cache.key_index
        if cache.index is not None or keys.shape[2] != 1 or chunk.window is not None:
            visible = Sight(chunk.places, index, True, chunk.window, documents=True, padded=chunk.is_padded)
        return Past(cache.keys, cache.values, index, visible, cache)

    @property
    def lengths(self) -> Tensor:
        return self.clock.count

    def rewind(self, lengths: Tensor) -> "Grown":
        clock = self.clock.rewind(lengths)
        if self.index is None and len(counts := set(clock.count.tolist())) == 1:
            [length] = counts
            return Grown(self.keys[:, :, :length], self.values[:, :, :length], None, clock)
        index = self.key_index
        return self._replace(index=torch.where(index < lengths[:, None], index, -1), clock=clock)

    def reordered(self, move: Callable[[Tensor], Tensor]) -> "Grown":
        return self._replace(keys=move(self.keys), values=move(self.values))

    @property
    def key_index(self) -> Tensor:
        if self.index is not None:
            return self.index
        return torch.arange(self.keys.shape[2], device=self.keys.device).expand(self.keys.shape[0], -1)


class Buffer(NamedTuple):
    """A cache of fixed capacity. The key of position p is in slot p + 1; padding is written to slot 0. Slots beyond a
    row's count are ignored.

    `places` maps the slots of a row to stored keys, numbered over all rows: row * (1 + capacity) + slot. None means
    that every row reads its own storage. A row always writes into its own storage, and updates `places`.
    """

    keys: Tensor  # (batch, 1 + capacity, heads, head_dim)
    values: Tensor
    index: Tensor  # type: ignore[assignment]  # (batch, 1 + capacity), -1 for slot 0 and then 0, 1, 2, ...
    clock: Clock
    places: Tensor | None = None  # (batch, 1 + capacity)

    def extend(self, keys: Tensor, values: Tensor, chunk: Chunk) -> Past:
        first = common_place(self.clock, chunk.mask, keys) if chunk.window is None else None
        if first is None:
            return read_slots(self.write(keys, values, chunk), chunk)
        length = keys.shape[2]
        cache = self.write_together(keys, values, first, chunk.clock)
        index = cache.index.narrow(1, 1, first + length)
        if first:
            keys, values = cache.read(slice(1, 1 + first + length))
        sees_all = first and length == 1
        visible = None if sees_all else Sight(chunk.places, index, causal=True, aligned=not first)
        return Past(keys, values, index, visible, cache)

    def write(self, keys: Tensor, values: Tensor, chunk: Chunk) -> "Buffer":
        """Write a chunk's keys and values (batch, heads, length, head_dim) into their slots, in place."""
        check_capacity(chunk.clock, self.keys.shape[1] - 1)
        slot = chunk.places.index
        own = write_slots(self, keys, values, slot)
        if self.places is not None:
            self.places.scatter_(1, (slot + 1).expand_as(own), own)
        return self._replace(clock=chunk.clock)

    def write_together(self, keys: Tensor, values: Tensor, position: int, clock: Clock) -> "Buffer":
        """Write a chunk that is at the same position of every row, in place."""
        length = keys.shape[2]
        if position + length >= self.keys.shape[1]:
            check_capacity(clock, self.keys.shape[1] - 1)
        self.keys.narrow(1, position + 1, length).copy_(keys.transpose(1, 2))
        self.values.narrow(1, position + 1, length).copy_(values.transpose(1, 2))
        if self.places is not None:
            slots = slice(position + 1, position + 1 + length)
            self.places[:, slots] = own_places(self.keys)[:, slots]
        return self._replace(clock=clock)

    def read(self, slots: slice = slice(None)) -> tuple[Tensor, Tensor]:
        """The keys and values (batch, heads, slots, head_dim) of each row."""
        if self.places is None:
            return self.keys[:, slots].transpose(1, 2), self.values[:, slots].transpose(1, 2)
        places = self.places[:, slots]
        flat = places.flatten()
        keys, values = (
            part.flatten(0, 1).index_select(0, flat).unflatten(0, places.shape) for part in (self.keys, self.values)
        )
        return keys.transpose(1, 2), values.transpose(1, 2)

    def reordered(self, move: Callable[[Tensor], Tensor]) -> "Buffer":
        return self._replace(places=move(own_places(self.keys) if self.places is None else self.places))

    def selected(self, rows: Tensor) -> "Buffer":
        keys, values, *rest_of_state = self
        index, clock, places = map_tree(lambda leaf: leaf.index_select(0, rows), rest_of_state)
        if places is None:
            return Buffer(keys.index_select(0, rows), values.index_select(0, rows), index, clock)
        return Buffer(keys, values, index, clock, places).gathered()

    def gathered(self) -> "Buffer":
        """Copy the keys and values of each row into its own storage."""
        if self.places is None:
            return self
        keys, values = (part.transpose(1, 2).contiguous() for part in self.read())
        return self._replace(keys=keys, values=values, places=own_places(keys))

    @property
    def lengths(self) -> Tensor:
        return self.clock.count

    def rewind(self, lengths: Tensor) -> "Buffer":
        # With different lengths, one row would overwrite what another still reads.
        return self.gathered()._replace(clock=self.clock.rewind(lengths))


class Ring(NamedTuple):
    """A cache of the last positions. The key of position p is in slot 1 + p modulo the size, which is window +
    RING_CHUNK; padding is written to slot 0."""

    keys: Tensor  # (batch, 1 + size, heads, head_dim)
    values: Tensor
    index: Tensor  # type: ignore[assignment]  # (batch, 1 + size), -1 in empty slots
    clock: Clock

    def extend(self, keys: Tensor, values: Tensor, chunk: Chunk) -> Past:
        return read_slots(self.write(keys, values, chunk), chunk)

    def write(self, keys: Tensor, values: Tensor, chunk: Chunk) -> "Ring":
        """Write a chunk's keys and values (batch, heads, length, head_dim) over the oldest ones, in place."""
        index = chunk.places.index
        slot = torch.where(index < 0, -1, index % (self.keys.shape[1] - 1))
        own = write_slots(self, keys, values, slot)
        self.index.flatten().index_copy_(0, own.flatten(), index.expand(keys.shape[0], -1).flatten())
        return Ring(self.keys, self.values, self.index, chunk.clock)

    @property
    def lengths(self) -> Tensor:
        return self.clock.count

    def rewind(self, lengths: Tensor) -> "Ring":
        self.check_rewind(lengths)
        index = torch.where(self.index < lengths[:, None], self.index, -1)
        return self._replace(index=index, clock=self.clock.rewind(lengths))

    def read(self) -> tuple[Tensor, Tensor]:
        """The keys and values (batch, heads, slots, head_dim) of each row."""
        return self.keys.transpose(1, 2), self.values.transpose(1, 2)

    def reordered(self, move: Callable[[Tensor], Tensor]) -> "Ring":
        return self._replace(keys=move(self.keys), values=move(self.values))

    def check_rewind(self, lengths: Tensor) -> None:
        """Refuse to rewind to a position whose window the ring has overwritten."""
        oldest = self.index.masked_fill(self.index < 0, torch.iinfo(torch.long).max).amin(1)
        window = self.keys.shape[1] - 1 - RING_CHUNK
        lost = (self.clock.count > 0) & (oldest > 0) & (oldest > lengths - window)
        if lost.device.type == "cuda":
            torch._assert_async(~lost.any(), "a windowed attention cache has overwritten the position it is rewound to")
        elif bool(lost.any()):
            raise UserError(
                f"a windowed cache can be rewound by {RING_CHUNK} positions, but row {int(lost.int().argmax())} would"
                " go back further; read shorter chunks, or keep a copy_state of the state"
            )


def own_places(keys: Tensor) -> Tensor:
    """Return the table (batch, slots) of a buffer whose rows read their own storage."""
    rows, slots = keys.shape[:2]
    return torch.arange(rows * slots, device=keys.device).view(rows, slots)


def new_buffer(batch_size: int, num_heads: int, capacity: int, head_dim: int, clock: Clock, like: Tensor) -> Buffer:
    keys = like.new_zeros(batch_size, 1 + capacity, num_heads, head_dim)
    index = torch.arange(-1, capacity, device=like.device).repeat(batch_size, 1)
    return Buffer(keys, torch.zeros_like(keys), index, clock)


def new_ring(batch_size: int, num_heads: int, window: int, head_dim: int, clock: Clock, like: Tensor) -> Ring:
    keys = like.new_zeros(batch_size, 1 + window + RING_CHUNK, num_heads, head_dim)
    return Ring(
        keys, torch.zeros_like(keys), torch.full(keys.shape[:2], -1, dtype=torch.long, device=like.device), clock
    )


def read_slots(cache: Buffer | Ring, chunk: Chunk) -> Past:
    """Return all slots of a cache; each query sees the positions of its document up to its own."""
    keys, values = cache.read()
    visible = Sight(chunk.places, cache.index, causal=True, window=chunk.window, documents=True, padded=chunk.is_padded)
    return Past(keys, values, cache.index, visible, cache)


def write_slots(cache: Buffer | Ring, keys: Tensor, values: Tensor, slot: Tensor) -> Tensor:
    """Write keys and values into `slot` (batch, length), where -1 is slot 0 of the cache. Return the slots numbered
    over all rows."""
    rows, slots = cache.keys.shape[:2]
    first = torch.arange(1, 1 + rows * slots, slots, device=keys.device)  # the slot of position 0 of each row
    own = first[:, None] + slot  # (batch, length)
    flat = own.flatten()
    for buffer, new in ((cache.keys, keys), (cache.values, values)):
        buffer.flatten(0, 1).index_copy_(0, flat, new.transpose(1, 2).flatten(0, 1).to(buffer.dtype))
    return own


def common_place(clock: Clock, mask: Tensor | None, keys: Tensor) -> int | None:
    """Return the position of a chunk's first key if it is the same in every row, and every row is in its first
    document; else None.

    Only on the CPU, where reading the clock needs no synchronisation. The keys up to this position are then contiguous,
    and no others are read.
    """
    if mask is not None or keys.device.type != "cpu" or torch.compiler.is_compiling():
        return None
    count = clock.count
    if (
        not len(count)
        or bool(clock.start.any())
        or (len(count) > 1 and not torch.equal(count, count[:1].expand_as(count)))
    ):
        return None
    position: int = count[0].item()  # type: ignore[assignment]
    return position


def check_capacity(clock: Clock, capacity: int) -> None:
    """Refuse to write past the end of a buffer; on a GPU the check is asynchronous."""
    if torch.compiler.is_compiling():
        return
    if clock.count.device.type == "cuda":
        torch._assert_async(clock.count.max() <= capacity, "an attention cache is full")
    elif len(clock.count) and (needed := clock.count.max().item()) > capacity:
        raise UserError(
            f"the cache was made for {capacity} positions, but the sequence has {needed}; give initial_state a larger"
            " capacity"
        )
