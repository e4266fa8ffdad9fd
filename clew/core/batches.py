"""Batches of any task: NamedTuples, dataclasses, tuples, lists and dicts whose tensors have the rows as their first
axis; other values apply to all rows. `Batches` is an endless sequence of them, indexed by position."""

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass, fields, is_dataclass
from itertools import chain
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from torch import Tensor

from clew.core.errors import UserError

B = TypeVar("B")


def map_batch(function: Callable[[Tensor], Any], batch: Any) -> Any:
    """Apply `function` to every tensor of a batch; other values are kept."""
    if isinstance(batch, Tensor):
        return function(batch)
    if isinstance(batch, dict):
        return {name: map_batch(function, part) for name, part in batch.items()}
    if isinstance(batch, (tuple, list)):
        parts = [map_batch(function, part) for part in batch]
        return type(batch)(*parts) if hasattr(batch, "_fields") else type(batch)(parts)
    if isinstance(batch, MutableMapping):  # such as the BatchEncoding of a transformers tokenizer
        copied = copy(batch)
        copied.update({name: map_batch(function, part) for name, part in batch.items()})
        return copied
    if is_dataclass(batch) and not isinstance(batch, type):
        return replaced(
            batch, **{field.name: map_batch(function, getattr(batch, field.name)) for field in fields(batch)}
        )
    return batch


def replaced(batch: B, **values: Any) -> B:
    """Copy a dataclass with some values replaced, without calling its constructor."""
    copied = copy(batch)
    for name, value in values.items():
        object.__setattr__(copied, name, value)  # a frozen dataclass refuses setattr
    return copied


def num_rows(batch: Any) -> int:
    """Return the number of rows of a batch. Raises a UserError if it has no tensor, since nothing could be learnt from
    it."""
    rows: list[int] = []
    map_batch(lambda tensor: rows.append(len(tensor)), batch)
    if not rows:
        raise UserError(
            f"a batch ({type(batch).__name__}) has no tensor, so there is nothing to train on; "
            "give tensors with the rows as their first axis, in a tuple, list, dict, NamedTuple or dataclass"
        )
    return rows[0]


def rows_of(batch: B, rows: slice) -> B:
    """Select rows of a batch."""
    part: B = map_batch(lambda tensor: tensor[rows], batch)
    return part


def cut_rows(batch: B, parts: int) -> list[B]:
    """Divide a batch into `parts` as equal as possible, larger ones first; some are empty if there are fewer rows than
    parts.

    The training loop cuts micro-batches with it, not the loader: accumulation, and halving what does not fit into
    memory, are then one operation on rows, for batches and for carried states.
    """
    if parts == 1:
        return [batch]
    total = num_rows(batch)
    return [rows_of(batch, slice_of_part(total, part, parts)) for part in range(parts)]


def slice_of_part(total: int, part: int, parts: int) -> slice:
    """Return the slice of `total` rows that belongs to a part."""
    size, larger = divmod(total, parts)
    start = size * part + min(part, larger)
    return slice(start, start + size + (part < larger))


def to_device(batch: B, device: torch.device) -> B:
    moved: B = map_batch(lambda tensor: tensor.to(device, non_blocking=True), batch)
    return moved


def padded(rows: Sequence[Sequence[int]], *, shifted: bool = False) -> tuple[Tensor, Tensor | None]:
    """Pad rows of ids with 0; return the ids and their mask, None if all are real and `few_lengths` is not active.

    `shifted` says that the columns are used without the last and without the first one, so that it is their number that
    `few_lengths` rounds.
    """
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    longest, most = lengths.max(initial=0), _most.get()
    if most is not None:
        longest = rounded_up(longest - shifted, most) + shifted
    mask = np.arange(longest) < lengths[:, None]
    ids = np.zeros(mask.shape, dtype=np.int64)
    ids[mask] = np.fromiter(chain.from_iterable(rows), np.int64, lengths.sum())
    return torch.from_numpy(ids), None if mask.all() and most is None else torch.from_numpy(mask)


_most: ContextVar[int | None] = ContextVar("most", default=None)


@contextmanager
def few_lengths(most: int) -> Iterator[None]:
    """Make `padded` round lengths up to a few values in this context, at most to `most`, the longest that the model can
    read. There is always a mask, since a graph without one would be another. So a compiler sees few shapes."""
    token = _most.set(most)
    try:
        yield
    finally:
        _most.reset(token)


def rounded_up(lengths: np.ndarray, most: int) -> np.ndarray:
    """Round lengths up: to multiples of 8 up to 128, and above to eight lengths between powers of two, but not past
    `most`."""
    # The largest power of two below each length.
    powers = 2 ** np.floor(np.log2(np.maximum(lengths - 1, 1))).astype(np.int64)
    steps = np.maximum(powers // 8, 8)
    rounded: np.ndarray = np.maximum(lengths, np.minimum(-(-lengths // steps) * steps, most))
    return rounded


def at_step(batch: B, step: int) -> B:
    """Set the field `step` (rows,) of a batch to the training step, if it has one. A tensor, so that compiled code is
    not compiled again."""
    current = getattr(batch, "step", None)
    if not isinstance(current, Tensor):
        return batch
    if is_dataclass(batch) and not isinstance(batch, type):
        return replaced(batch, step=torch.full_like(current, step))
    replace: Callable[..., B] | None = getattr(batch, "_replace", None)
    return batch if replace is None else replace(step=torch.full_like(current, step))


@dataclass
class Batches:
    """The batches of all processes, as a pure function of (epoch, batch), so that this position is all that a
    checkpoint has to keep.

    `get(epoch, batch)` may be called for any position; `ahead(epoch, batch)` iterates from a position on, and may
    prepare batches in advance. Optional fields of a batch: `fresh` says that its streams start there, `rate` multiplies
    the learning rate, `num_tokens` is how many tokens its rows read if fewer are predicted, and `step` (rows,) is
    filled in by the training loop.

    `own(epoch, batch, part, parts)` creates only the rows of one part, equal to `cut_rows(get(epoch, batch),
    parts)[part]`, so that no process creates the rows of another. Without it the whole batch is created and cut.

    Of a stream (`is_stream`), `per_epoch` is an estimate, and `get` is fast only for the batches that `ahead` gave
    last. A position is then kept together with `place(epoch, batch)`, a JSON value that `ahead` takes and without which
    it reads the epoch from its beginning.
    """

    per_epoch: Callable[[int], int]
    get: Callable[[int, int], Any]
    own: Callable[[int, int, int, int], Any] | None = None

    is_stream: ClassVar[bool] = False

    def share(self, epoch: int, batch: int, part: int, parts: int) -> Any:
        """Return one part of a batch's rows; it is empty for some parts if the batch has fewer rows than parts."""
        if self.own is None or parts == 1:
            return cut_rows(self.get(epoch, batch), parts)[part]
        return self.own(epoch, batch, part, parts)

    def positions(self, epoch: int, batch: int) -> Iterator[tuple[int, int]]:
        """Yield every position from (epoch, batch) on, without end."""
        while True:
            while batch >= self.per_epoch(epoch):
                epoch, batch = epoch + 1, 0
            yield epoch, batch
            batch += 1

    def place(self, epoch: int, batch: int) -> Any:
        """Return where a stream has to be read for a position; None if the position alone is enough."""
        return None

    def ahead(
        self, epoch: int, batch: int, part: int = 0, parts: int = 1, place: Any = None
    ) -> Iterator[tuple[int, int, Any]]:
        for position in self.positions(epoch, batch):
            yield *position, self.share(*position, part, parts)
