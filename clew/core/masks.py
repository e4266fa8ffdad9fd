"""Which positions are real, where each stands in its row, and which document it belongs to.

A mask is None (all real), boolean (batch, length), or integer document numbers with 0 for padding. Within a chunk a row's real
positions come first. A `Clock` carries a row's count from chunk to chunk, so positions never come from `arange` alone.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from clew.core.errors import UserError


class Clock(NamedTuple):
    """Where each row stands: how many real positions it has read, where its document began, and that document's number."""

    count: Tensor  # type: ignore[assignment]  # (batch,)
    start: Tensor  # (batch,)
    document: Tensor  # (batch,)

    def reordered(self, move: Callable[[Tensor], Tensor]) -> "Clock":
        """Rows that take each other's place stand at the same one."""
        return self

    @property
    def lengths(self) -> Tensor:
        return self.count

    def rewind(self, lengths: Tensor) -> "Clock":
        """Back to `lengths` positions read, inside the document that each row stands in: where the one before began is not kept."""
        if lengths.device.type == "cpu" and bool((lengths < self.start).any()):
            row = int((lengths < self.start).int().argmax())
            raise UserError(
                f"row {row} began its document at position {int(self.start[row])} and cannot be rewound to {int(lengths[row])}, "
                "before it; keep a copy_state of the state instead"
            )
        return self._replace(count=torch.minimum(self.count, lengths))


class Places(NamedTuple):
    """Where a chunk's positions stand: `index` in their row, -1 on padding, and the index at which their document began.

    Both are (batch, length), or (1, length) where every row is the same.
    """

    index: Tensor  # type: ignore[assignment]
    start: Tensor

    @property
    def positions(self) -> Tensor:
        """Positions counted within a document; padding gets 0."""
        return (self.index - self.start).clamp(min=0)


def new_clock(batch_size: int, device: torch.device) -> Clock:
    """Nothing read yet."""
    return Clock(*torch.zeros(3, batch_size, dtype=torch.long, device=device).unbind(0))


def advance(clock: Clock | None, mask: Tensor | None, x: Tensor) -> tuple[Places, Clock]:
    """The places of a chunk `x` (batch, length, ...) read from where `clock` stands (None: from the start), and the clock after it."""
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
        return Places(index, clock.start[:, None].expand_as(index)), Clock(clock.count + length, clock.start, clock.document)
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
    """Whether a mask numbers documents rather than only telling real from padding."""
    return mask is not None and mask.dtype != torch.bool


def real_positions(mask: Tensor | None) -> Tensor | None:
    """The boolean mask, whichever kind was given."""
    return mask > 0 if mask is not None and has_documents(mask) else mask


def document_starts(mask: Tensor, previous: Tensor) -> Tensor:
    """True (batch, length) where a document begins, `previous` (batch,) being the last one of the chunk before."""
    before = torch.cat([previous[:, None].to(mask.dtype), mask[:, :-1]], 1)
    return (mask > 0) & (mask != before)


def row_lengths(mask: Tensor) -> Tensor:
    """How many real positions each row has (batch,)."""
    return (mask > 0).sum(1) if has_documents(mask) else mask.sum(1)


def chunk_lengths(x: Tensor, mask: Tensor | None) -> Tensor:
    """How many real positions each row of a chunk `x` (batch, length, ...) has (batch,)."""
    return torch.full((x.shape[0],), x.shape[1], device=x.device) if mask is None else row_lengths(mask)


def mask_unless_full(mask: Tensor) -> Tensor | None:
    """The mask, or None where every position is real, which keeps the fastest path."""
    return None if bool(mask.all()) else mask


def last_real(x: Tensor, mask: Tensor | None, otherwise: Tensor) -> Tensor:
    """Each row's value (batch, dim) at its last real position of `x` (batch, length, dim); `otherwise` where it has none."""
    if x.shape[1] == 0:
        return otherwise
    if mask is None:
        return x[:, -1]
    lengths = row_lengths(mask)
    index = (lengths - 1).clamp(min=0)[:, None, None].expand(-1, 1, x.shape[-1])
    return torch.where((lengths > 0)[:, None], x.gather(1, index)[:, 0], otherwise)


def reverse_rows(x: Tensor, mask: Tensor | None) -> Tensor:
    """Each row's real positions in the opposite order, its padding left where it is; twice is nothing."""
    if mask is None:
        return x.flip(1)
    steps = torch.arange(x.shape[1], device=x.device)[None]
    backwards = row_lengths(mask)[:, None] - 1 - steps
    order = torch.where(backwards >= 0, backwards, steps)
    return x.gather(1, order.view(*order.shape, *[1] * (x.dim() - 2)).expand_as(x))
