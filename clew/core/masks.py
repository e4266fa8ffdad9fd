"""Which positions are real, their index in the row, and the document they belong to.

A mask is None (all real), boolean (batch, length), or integer document numbers with 0 for padding. Within a chunk the
real positions of a row come first. A `Clock` carries the count of each row from chunk to chunk, so positions never come
from `arange` alone.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from clew.core.errors import UserError


class Clock(NamedTuple):
    """The position of each row: how many real positions it has read, where its document began, and the document's
    number.

    With the start of the document, attention inside a document is one comparison of indices, and caches need no
    document numbers.
    """

    count: Tensor  # type: ignore[assignment]  # (batch,)
    start: Tensor  # (batch,)
    document: Tensor  # (batch,)

    def reordered(self, move: Callable[[Tensor], Tensor]) -> "Clock":
        """Return self: rows that replace each other have read equally many positions."""
        return self

    @property
    def lengths(self) -> Tensor:
        return self.count

    def rewind(self, lengths: Tensor) -> "Clock":
        """Go back to `lengths` positions read, within the current document of each row: the start of earlier documents
        is not kept."""
        if lengths.device.type == "cpu" and bool((lengths < self.start).any()):
            row = int((lengths < self.start).int().argmax())
            raise UserError(
                f"row {row} began its document at position {int(self.start[row])} and cannot be rewound to"
                f" {int(lengths[row])}, before it; keep a copy_state of the state instead"
            )
        return self._replace(count=torch.minimum(self.count, lengths))


class Places(NamedTuple):
    """The positions of a chunk: `index` in the row, -1 on padding, and the index at which the document began.

    Both are (batch, length), or (1, length) if all rows are equal.
    """

    index: Tensor  # type: ignore[assignment]
    start: Tensor

    @property
    def positions(self) -> Tensor:
        """Positions counted within a document; padding gets 0."""
        return (self.index - self.start).clamp(min=0)


def new_clock(batch_size: int, device: torch.device) -> Clock:
    """Return a clock before anything is read."""
    return Clock(*torch.zeros(3, batch_size, dtype=torch.long, device=device).unbind(0))


def advance(clock: Clock | None, mask: Tensor | None, x: Tensor) -> tuple[Places, Clock]:
    """Return the places of a chunk `x` (batch, length, ...) read after `clock` (None: from the start), and the clock
    after it."""
    batch, length = x.shape[:2]
    if mask is None and clock is not None and length == 1:
        return Places(clock.count[:, None], clock.start[:, None]), Clock(clock.count + 1, clock.start, clock.document)
    steps = torch.arange(length, device=x.device)
    if mask is None and clock is None:
        zero = new_clock(batch, x.device)
        return Places(steps[None], torch.zeros_like(steps)[None]), Clock(zero.count + length, zero.start, zero.document)
    clock = new_clock(batch, x.device) if clock is None else clock
    if mask is None:
        index = clock.count[:, None] + steps
        return Places(index, clock.start[:, None].expand_as(index)), Clock(
            clock.count + length, clock.start, clock.document
        )
    real = mask > 0 if has_documents(mask) else mask
    counted = real.cumsum(1)
    index = torch.where(real, clock.count[:, None] + counted - 1, -1)
    count = clock.count + counted[:, -1] if length else clock.count
    if not has_documents(mask):
        return Places(index, clock.start[:, None].expand_as(index)), Clock(count, clock.start, clock.document)
    restarts = document_starts(mask, clock.document)
    start = torch.where(restarts, index, -1).cummax(1).values if length else index
    start = torch.where(start < 0, clock.start[:, None], start)
    document = last_real(mask[..., None], real, clock.document[:, None])[:, 0]
    new_start = last_real(start[..., None], real, clock.start[:, None])[:, 0]
    return Places(index, start), Clock(count, new_start, document)


def has_documents(mask: Tensor | None) -> bool:
    """Whether a mask has document numbers, not only real and padding."""
    return mask is not None and mask.dtype != torch.bool


def real_positions(mask: Tensor | None) -> Tensor | None:
    """Return the boolean form of a mask of either kind."""
    return mask > 0 if mask is not None and has_documents(mask) else mask


def document_starts(mask: Tensor, previous: Tensor) -> Tensor:
    """True (batch, length) where a document begins; `previous` (batch,) are the last documents of the chunk before."""
    before = torch.cat([previous[:, None].to(mask.dtype), mask[:, :-1]], 1)
    return (mask > 0) & (mask != before)


def row_lengths(mask: Tensor) -> Tensor:
    """Return the number of real positions of each row (batch,)."""
    return (mask > 0).sum(1) if has_documents(mask) else mask.sum(1)


def chunk_lengths(x: Tensor, mask: Tensor | None) -> Tensor:
    """Return the number of real positions of each row (batch,) of a chunk `x` (batch, length, ...)."""
    return torch.full((x.shape[0],), x.shape[1], device=x.device) if mask is None else row_lengths(mask)


def mask_unless_full(mask: Tensor) -> Tensor | None:
    """Return the mask, or None if every position is real, which allows the fastest path."""
    return None if bool(mask.all()) else mask


def last_real(x: Tensor, mask: Tensor | None, otherwise: Tensor) -> Tensor:
    """Return `x` (batch, length, dim) at the last real position of each row (batch, dim), or `otherwise` for rows
    without one."""
    if x.shape[1] == 0:
        return otherwise
    if mask is None:
        return x[:, -1]
    lengths = row_lengths(mask)
    index = (lengths - 1).clamp(min=0)[:, None, None].expand(-1, 1, x.shape[-1])
    return torch.where((lengths > 0)[:, None], x.gather(1, index)[:, 0], otherwise)


def reverse_rows(x: Tensor, mask: Tensor | None) -> Tensor:
    """Reverse the real positions of each row and leave its padding in place; its own inverse."""
    if mask is None:
        return x.flip(1)
    steps = torch.arange(x.shape[1], device=x.device)[None]
    backwards = row_lengths(mask)[:, None] - 1 - steps
    order = torch.where(backwards >= 0, backwards, steps)
    return x.gather(1, order.view(*order.shape, *[1] * (x.dim() - 2)).expand_as(x))
