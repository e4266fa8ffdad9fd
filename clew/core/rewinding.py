"""Taking back what was read, whatever layer, body or stepper read it.

A part of a state that counts positions (an attention cache, a clock, a history) has `lengths` and `rewind(lengths)`: it forgets what stands
behind them. Any other part is overwritten by every step. It is copied before a chunk, and the positions that stay are read again from
there. Caches take the same values in the same slots a second time, so both ways are exact.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from clew.core.masks import chunk_lengths, has_documents, mask_unless_full
from clew.core.state import map_parts
from clew.core.types import State

REWIND = "rewind"
"""The method of a part that can forget."""
Reader = Callable[[Tensor, Tensor | None, State], tuple[Any, State]]
"""(inputs (rows, length, ...), mask, state) -> (outputs, state), as layers, bodies and steppers read."""


class Mark(NamedTuple):
    """Where a state stood before a chunk: copies of the parts that a step overwrites; of each part that counts positions the part itself,
    which may be large, and how many it had read."""

    state: State
    lengths: list[Tensor]


def mark(state: State) -> Mark:
    """A place to come back to. What is read from it is at most as long as the state can forget: a window's ring holds one chunk of
    `caches.RING_CHUNK` positions besides its window."""
    lengths: list[Tensor] = []

    def note(part: Any) -> Any:
        lengths.append(part.lengths.clone())  # a step on a GPU moves clocks in place
        return part

    return Mark(map_parts(REWIND, note, Tensor.clone, state), lengths)


def restore(place: Mark) -> State:
    """The state that was marked."""
    lengths = iter(place.lengths)
    return map_parts(REWIND, lambda part: part.rewind(next(lengths)), lambda leaf: leaf, place.state)


def forget(place: Mark, state: State, read: Tensor, counts: Tensor) -> State | None:
    """The state that has read `counts` (rows,) positions since the mark instead of `read` (rows,), where its parts can forget the others.

    None where one is overwritten, or has not simply gone on from the mark: a sliding window that began anew counts from another place.
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
    """The state as it were had each row read only the first `counts` (rows,) positions of a chunk since the mark.

    `state` is what reading the chunk gave; neither it nor the mark can be used any more.
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
