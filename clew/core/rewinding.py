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
from clew.core.types import Memory, State

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
        if isinstance(part, Tensor):
            return part.clone()
        lengths.append(part.lengths.clone())  # a step on a GPU moves clocks in place
        return part

    return Mark(_map_parts(note, state), lengths)


def restore(place: Mark) -> State:
    """The state that was marked."""
    lengths = iter(place.lengths)
    return _map_parts(lambda part: part if isinstance(part, Tensor) else part.rewind(next(lengths)), place.state)


def forget(place: Mark, state: State, read: Tensor, counts: Tensor) -> State | None:
    """The state that has read `counts` (rows,) positions since the mark instead of `read` (rows,), where its parts can forget the others.

    None where one is overwritten, or has not simply gone on from the mark: a sliding window that began anew counts from another place.
    """
    parts: list[Any] = []
    _map_parts(parts.append, state)
    if len(parts) != len(place.lengths) or any(isinstance(part, Tensor) for part in parts):
        return None
    if parts and not torch.equal(torch.stack([part.lengths for part in parts]), torch.stack(place.lengths) + read):
        return None
    lengths = iter(place.lengths)
    return _map_parts(lambda part: part.rewind(next(lengths) + counts), state)


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


def _map_parts(function: Callable[[Any], Any], state: State) -> State:
    """`function` of every part that counts positions, and of every tensor outside one; memory is only read, and stays."""
    if state is None or isinstance(state, Memory):
        return state
    if isinstance(state, Tensor) or hasattr(state, "rewind"):
        return function(state)
    if isinstance(state, dict):
        return {name: _map_parts(function, part) for name, part in state.items()}
    parts = [_map_parts(function, part) for part in state]
    return type(state)(*parts) if hasattr(state, "_fields") else type(state)(parts)
