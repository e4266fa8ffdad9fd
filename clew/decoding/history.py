"""The tokens that each row has read, for steppers that look back. Does not know what they are used for."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

ABSENT = -1


class History(NamedTuple):
    """The tokens that each row has read, by position; slots at or after a row's length hold ABSENT."""

    tokens: Tensor  # (rows, slots)
    lengths: Tensor  # (rows,)

    def extend(self, tokens: Tensor, mask: Tensor | None) -> tuple["History", Tensor]:
        """Return the history after a chunk (rows, length), and the slot (rows, length) of each position of the
        chunk."""
        length = tokens.shape[1]
        before = self.lengths.to(tokens.device)
        slots = before[:, None] + torch.arange(length, device=tokens.device)
        read = tokens if mask is None else tokens.masked_fill(~mask, ABSENT)
        after = before + (length if mask is None else mask.sum(1))
        return type(self)(self.room_for(length).to(tokens.device).scatter(1, slots, read), after), slots

    def room_for(self, length: int) -> Tensor:
        """Return the slots with room for `length` more tokens."""
        return functional.pad(self.tokens, (0, length), value=ABSENT)

    def rewind(self, lengths: Tensor) -> "History":
        lengths = torch.minimum(self.lengths, lengths)
        slots = torch.arange(self.tokens.shape[1], device=self.tokens.device)
        return type(self)(self.tokens.masked_fill(slots >= lengths[:, None], ABSENT), lengths)


class RoomyHistory(History):
    """A history with all slots allocated at the start, so that no step changes its shape."""

    def room_for(self, length: int) -> Tensor:
        return self.tokens


def empty_history(rows: int, capacity: int | None = None) -> History:
    """Return an empty history with room for `capacity` tokens (None: it grows). It moves to the device of the first
    tokens."""
    lengths = torch.zeros(rows, dtype=torch.long)
    if capacity is None:
        return History(torch.zeros(rows, 0, dtype=torch.long), lengths)
    return RoomyHistory(torch.full((rows, capacity), ABSENT), lengths)
