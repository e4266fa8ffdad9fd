"""Batches of any task: NamedTuples whose tensors have the rows as their first axis. What is no tensor holds for all rows alike.
And an endless order of them, by position."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

B = TypeVar("B")


def map_batch(function: Callable[[Tensor], Any], batch: Any) -> Any:
    """`function` of every tensor of a batch; all else is handed on."""
    if isinstance(batch, Tensor):
        return function(batch)
    if isinstance(batch, dict):
        return {name: map_batch(function, part) for name, part in batch.items()}
    if isinstance(batch, (tuple, list)):
        parts = [map_batch(function, part) for part in batch]
        return type(batch)(*parts) if hasattr(batch, "_fields") else type(batch)(parts)
    return batch


def num_rows(batch: Any) -> int:
    found: list[int] = []
    map_batch(lambda tensor: found.append(len(tensor)), batch)
    return found[0] if found else 0


def rows_of(batch: B, rows: slice) -> B:
    """The same batch with some of its rows."""
    found: B = map_batch(lambda tensor: tensor[rows], batch)
    return found


def cut_rows(batch: B, parts: int) -> list[B]:
    """A batch in so many parts, as equal as can be, the larger first; some are empty where there are fewer rows than parts."""
    if parts == 1:
        return [batch]
    total = num_rows(batch)
    return [rows_of(batch, part_of(total, part, parts)) for part in range(parts)]


def part_of(total: int, part: int, parts: int) -> slice:
    """Which of so many rows a part has."""
    size, larger = divmod(total, parts)
    start = size * part + min(part, larger)
    return slice(start, start + size + (part < larger))


def to_device(batch: B, device: torch.device) -> B:
    found: B = map_batch(lambda tensor: tensor.to(device, non_blocking=True), batch)
    return found


def padded(rows: Sequence[Sequence[int]], *, shifted: bool = False) -> tuple[Tensor, Tensor | None]:
    """Rows of ids side by side, 0 after each row's end, and which are real; None where all are, but within `few_lengths`. `shifted` says
    that the columns before the last and those after the first are used, so that it is these that have one of few lengths."""
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
    """Within this context rows are `padded` to one of few lengths, `most` being the longest that a model can read, and always have a mask:
    a compiler then meets few shapes."""
    token = _most.set(most)
    try:
        yield
    finally:
        _most.reset(token)


def rounded_up(lengths: np.ndarray, most: int) -> np.ndarray:
    """Multiples of 8 up to 128, and above it eight lengths from each power of two to the next; none above `most` that was not before."""
    powers = 2 ** np.floor(np.log2(np.maximum(lengths - 1, 1))).astype(np.int64)  # the largest below each length
    steps = np.maximum(powers // 8, 8)
    found: np.ndarray = np.maximum(lengths, np.minimum(-(-lengths // steps) * steps, most))
    return found


def at_step(batch: B, step: int) -> B:
    """A batch that knows which step it is trained in, where it has a tensor `step` (rows,) to be told by."""
    told, replaced = getattr(batch, "step", None), getattr(batch, "_replace", None)
    found: B = batch if not isinstance(told, Tensor) or replaced is None else replaced(step=torch.full_like(told, step))
    return found


@dataclass
class Batches:
    """Batch b of epoch e, for all processes together: a pure function, so that the position (epoch, batch) is all there is to remember.

    `get(epoch, batch)` may be called for any position; `ahead(epoch, batch)` gives the batches from a position on, and may make them
    before they are asked for. A batch's `fresh` says that its streams start there, its `rate` multiplies the learning rate, and its
    `num_tokens` is how many its rows read, where fewer are predicted. Its `step` (rows,), where it has one, is filled in by the training
    loop.

    `own(epoch, batch, part, parts)` makes the rows of a part alone, with the contents that `cut_rows(get(epoch, batch), parts)[part]` has,
    so that no process makes the rows of another. Without it the whole batch is made and cut.
    """

    per_epoch: Callable[[int], int]
    get: Callable[[int, int], Any]
    own: Callable[[int, int, int, int], Any] | None = None

    def share(self, epoch: int, batch: int, part: int, parts: int) -> Any:
        """A part of a batch's rows, none where the batch has fewer rows than parts."""
        if self.own is None or parts == 1:
            return cut_rows(self.get(epoch, batch), parts)[part]
        return self.own(epoch, batch, part, parts)

    def positions(self, epoch: int, batch: int) -> Iterator[tuple[int, int]]:
        """Every position from one on, without end."""
        while True:
            while batch >= self.per_epoch(epoch):
                epoch, batch = epoch + 1, 0
            yield epoch, batch
            batch += 1

    def ahead(self, epoch: int, batch: int, part: int = 0, parts: int = 1) -> Iterator[tuple[int, int, Any]]:
        for position in self.positions(epoch, batch):
            yield *position, self.share(*position, part, parts)
