"""Rewinding a state to fewer positions, for any layer, body or stepper.

A part of a state that counts positions (an attention cache, a clock, a history) has `lengths` and `rewind(lengths)`,
which forgets later positions. Any other part is overwritten by every step: it is copied before a chunk, and the
positions to keep are read again from there, by all parts of the state. Caches then write the same values to the same
slots, so both ways are exact, and no layer keeps its state after every position.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from clew.core.masks import chunk_lengths, has_documents, mask_unless_full
from clew.core.state import map_parts
from clew.core.types import State

REWIND = "rewind"
"""The method of a part that can be rewound."""
Reader = Callable[[Tensor, Tensor | None, State], tuple[Any, State]]
"""(inputs (rows, length, ...), mask, state) -> (outputs, state), as in layers, bodies and steppers."""


class Mark(NamedTuple):
    """A state before a chunk: copies of the parts that a step overwrites; parts that count positions, which may be
    large, are not copied, but their lengths are kept."""

    state: State
    lengths: list[Tensor]


def mark(state: State) -> Mark:
    """Mark a state to return to. Read no more after it than the state can forget: the ring of a window holds one chunk
    of `caches.RING_CHUNK` positions besides its window."""
    lengths: list[Tensor] = []

    def note(part: Any) -> Any:
        lengths.append(part.lengths.clone())  # copied, since a step on a GPU advances clocks in place
        return part

    return Mark(map_parts(REWIND, note, Tensor.clone, state), lengths)


def restore(place: Mark) -> State:
    """Return the marked state."""
    lengths = iter(place.lengths)
    return map_parts(REWIND, lambda part: part.rewind(next(lengths)), lambda leaf: leaf, place.state)


def forget(place: Mark, state: State, read: Tensor, counts: Tensor) -> State | None:
    """Rewind a state that has read `read` (rows,) positions since the mark to `counts` (rows,).

    None if a part is overwritten by steps, or has not simply continued from the mark, such as a sliding window that has
    restarted.
    """
    parts: list[Any] = []
    overwritten: list[Tensor] = []
    map_parts(REWIND, parts.append, overwritten.append, state)
    if overwritten or len(parts) != len(place.lengths):
        return None
    if parts and not torch.equal(torch.stack([part.lengths for part in parts]), torch.stack(place.lengths) + read):
        return None
    lengths = iter(place.lengths)
    return map_parts(REWIND, lambda part: part.rewind(next(lengths) + counts), lambda leaf: leaf, state)


def rewind(reader: Reader, place: Mark, state: State, inputs: Tensor, mask: Tensor | None, counts: Tensor) -> State:
    """Return the state as if each row had read only the first `counts` (rows,) positions of the chunk since the mark.

    `state` is the state after the whole chunk; it and the mark are consumed.
    """
    read = chunk_lengths(inputs, mask)
    if torch.equal(read, counts):
        return state
    if not has_documents(mask) and (forgetful := forget(place, state, read, counts)) is not None:
        return forgetful
    longest = int(counts.max())
    if not longest:
        return restore(place)
    kept = torch.arange(longest, device=counts.device) < counts[:, None]
    if mask is not None and has_documents(mask):
        return reader(inputs[:, :longest], torch.where(kept, mask[:, :longest], 0), restore(place))[1]
    return reader(inputs[:, :longest], mask_unless_full(kept), restore(place))[1]
