"""Decide which tokens go into which batch: pure functions of the number of tokens, a seed and an epoch. Knows no text
and no model.

A plan says how many batches an epoch has, and builds any of them directly, so (epoch, batch) is a complete position.
Targets are the tokens one later. If rows are not all full, `mask` says which places are real. A row's real places come
first; at the end of uneven streams, a row may have none. With documents `apart`, `mask` holds the document number of
each place. A target in another document than the token before it counts only if it is an end token, which closes one
document and opens the next.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from clew.core.batches import slice_of_part
from clew.core.errors import UserError
from clew.core.masks import real_positions
from clew.data.caching.shards import Shards

Tokens = np.ndarray | Shards


class TokenBatch(NamedTuple):
    tokens: Tensor  # (batch, length)
    targets: Tensor  # (batch, length)
    mask: Tensor | None = None  # (batch, length), None if all are real; document numbers if documents are apart
    fresh: bool = True  # streams start here: no state is carried over from the previous batch
    rate: float = 1.0  # factor of the learning rate for this batch: its length over the usual one, if lengths vary
    within: Tensor | None = None  # (batch, length), True where a real target counts; None if all do

    @property
    def counted(self) -> Tensor | None:
        """Which targets count; None if all do."""
        return real_positions(self.mask) if self.within is None else self.within


class Plan(Protocol):
    """One epoch's batches."""

    @property
    def num_batches(self) -> int: ...

    @property
    def num_targets(self) -> int: ...

    def batch(
        self, tokens: Tokens, number: int, *, apart: bool = False, part: int = 0, parts: int = 1
    ) -> TokenBatch: ...


@dataclass(frozen=True, eq=False)
class StreamPlan:
    """Parallel streams, each read in order in chunks: batch k holds chunk k of every stream."""

    starts: np.ndarray  # (stream,)
    sizes: np.ndarray  # (stream,), in targets
    length: int

    @property
    def num_batches(self) -> int:
        return -(-int(self.sizes.max()) // self.length)

    @property
    def num_targets(self) -> int:
        return int(self.sizes.sum())

    def batch(self, tokens: Tokens, number: int, *, apart: bool = False, part: int = 0, parts: int = 1) -> TokenBatch:
        check_number(number, self.num_batches)
        done = number * self.length
        sizes = np.clip(self.sizes - done, 0, self.length)
        return gather(
            tokens,
            self.starts + done,
            sizes,
            fresh=number == 0,
            apart=apart,
            rows=slice_of_part(len(sizes), part, parts),
        )


@dataclass(frozen=True, eq=False)
class VariedStreamPlan:
    """Parallel streams of equal size, each read in order in chunks of varying length: batch k holds every stream from
    edge k to edge k + 1."""

    starts: np.ndarray  # (stream,)
    edges: np.ndarray  # (batch + 1,), in targets, from 0 to a stream's size
    length: int  # the usual one, for which the learning rate is set

    @property
    def num_batches(self) -> int:
        return len(self.edges) - 1

    @property
    def num_targets(self) -> int:
        return len(self.starts) * int(self.edges[-1])

    def batch(self, tokens: Tokens, number: int, *, apart: bool = False, part: int = 0, parts: int = 1) -> TokenBatch:
        check_number(number, self.num_batches)
        first, last = self.edges[number], self.edges[number + 1]
        rows = slice_of_part(len(self.starts), part, parts)
        batch = gather(
            tokens,
            self.starts + first,
            np.full(len(self.starts), last - first),
            fresh=number == 0,
            apart=apart,
            rows=rows,
        )
        return batch._replace(rate=int(last - first) / self.length)


@dataclass(frozen=True, eq=False)
class WindowPlan:
    """Independent windows, `batch_size` of them in a batch."""

    starts: np.ndarray  # (window,)
    sizes: np.ndarray  # (window,), in targets
    batch_size: int

    @property
    def num_batches(self) -> int:
        return -(-len(self.starts) // self.batch_size)

    @property
    def num_targets(self) -> int:
        return int(self.sizes.sum())

    def batch(self, tokens: Tokens, number: int, *, apart: bool = False, part: int = 0, parts: int = 1) -> TokenBatch:
        check_number(number, self.num_batches)
        windows = slice(number * self.batch_size, (number + 1) * self.batch_size)
        starts, sizes = self.starts[windows], self.sizes[windows]
        return gather(tokens, starts, sizes, fresh=True, apart=apart, rows=slice_of_part(len(sizes), part, parts))


@dataclass(frozen=True, eq=False)
class ExamplePlan:
    """Batches as lists of examples."""

    batches: list[np.ndarray]  # each (rows,), numbers of examples

    @property
    def num_batches(self) -> int:
        return len(self.batches)

    def rows(self, number: int) -> np.ndarray:
        check_number(number, self.num_batches)
        return self.batches[number]

    def own_rows(self, number: int, part: int, parts: int, lengths: np.ndarray) -> tuple[np.ndarray, int]:
        """Return the examples of a part of a batch, and their number. After them come the examples that decide the
        padding of the whole batch, to be collated with the part and then cut off: the longest on every side, and the
        shortest, without which the part might not need a mask. `lengths` is (example, side)."""
        rows = self.rows(number)
        own, sides = rows[slice_of_part(len(rows), part, parts)], lengths[rows].reshape(len(rows), -1)
        deciding = np.setdiff1d(rows[np.concatenate([sides.argmax(0), sides.argmin(0)])], own)
        return np.concatenate([own, deciding]), len(own)


def bucket_plan(lengths: np.ndarray, batch_tokens: int, seed: int, epoch: int, multiple: int = 1) -> ExamplePlan:
    """Plan every example once. Examples of similar length are together, as many in a batch as fit into `batch_tokens`
    with their padding. Batches are in random order, and cut anew each epoch.

    `lengths` is (example,), or (example, side) if an example has several sequences, such as a sentence and its
    translation. An example longer than the budget forms its own batch. Batches have a multiple of `multiple` rows, if
    that many fit.
    """
    if batch_tokens < 1:
        raise UserError(f"training.batch_tokens ({batch_tokens}) must be at least 1")
    sides = lengths.reshape(len(lengths), -1)
    random = np.random.default_rng([seed, epoch])
    order = random.permutation(len(sides))
    order = order[np.argsort(sides[order].sum(1), kind="stable")]
    batches = cut_by_budget(sides[order], batch_tokens, multiple)
    return ExamplePlan([order[batches[number]] for number in random.permutation(len(batches))])


def shuffled_plan(num_examples: int, batch_size: int, seed: int, epoch: int) -> ExamplePlan:
    """Plan every example once, `batch_size` in a batch, in random order."""
    order = np.random.default_rng([seed, epoch]).permutation(num_examples)
    return ExamplePlan([order[start : start + batch_size] for start in range(0, num_examples, batch_size)])


def cut_by_budget(sides: np.ndarray, batch_tokens: int, multiple: int = 1) -> list[slice]:
    """Cut neighbouring examples (example, side) into batches: as many rows as keep rows * (the sum over sides of the
    longest) within the budget, at least one, and a multiple of `multiple` if that many fit."""
    batches, start = [], 0
    while start < len(sides):
        shortest = max(1, int(sides[start].sum()))
        ahead = sides[start : start + max(1, batch_tokens // shortest)]
        padded = np.maximum.accumulate(ahead).sum(1) * np.arange(1, len(ahead) + 1)
        fitting = max(1, int(np.searchsorted(padded, batch_tokens, side="right")))
        fitting = fitting // multiple * multiple or fitting
        batches.append(slice(start, start + fitting))
        start += fitting
    return batches


def batches_by_length(sides: np.ndarray, batch_tokens: int) -> list[list[int]]:
    """Group examples (example, side) whose order is free into batches of similar length, within the budget."""
    order = np.argsort(sides.sum(1), kind="stable")
    return [order[cut].tolist() for cut in cut_by_budget(sides[order], batch_tokens)]


def stream_plan(num_tokens: int, batch_size: int, length: int) -> StreamPlan:
    """Plan training on `batch_size` streams of equal size: every token but the first is a target once, except at most
    batch_size - 1 tokens at the end."""
    check_sizes(num_tokens, batch_size, length)
    size = (num_tokens - 1) // batch_size
    if size < length:
        raise UserError(
            f"the text has {num_tokens} tokens, {size} for each of {batch_size} streams, fewer than one chunk of"
            f" {length}; give more text or set {stream_remedy(num_tokens, length)}"
        )
    return StreamPlan(np.arange(batch_size) * size, np.full(batch_size, size), length)


def varied_stream_plan(num_tokens: int, batch_size: int, length: int, seed: int, epoch: int) -> VariedStreamPlan:
    """Plan training as `stream_plan` does, with chunks cut anew each epoch (Merity et al. 2018). A chunk's length is
    drawn from N(mean, 5), where the mean is `length`, or one time in twenty half of it; it is at least 5, and at most
    20 above the mean. The last chunk of an epoch is the rest."""
    streams = stream_plan(num_tokens, batch_size, length)
    size = int(streams.sizes[0])
    random = np.random.default_rng([seed, epoch])
    shortest = min(SHORTEST, length)
    num_draws = -(-size // shortest)
    means = np.where(random.random(num_draws) < USUAL, length, length / 2)
    drawn = np.clip(
        random.normal(means, SPREAD).astype(np.int64), shortest, np.maximum(means.astype(np.int64) + LONGER, shortest)
    )
    edges = np.minimum(np.concatenate([[0], drawn.cumsum()]), size)
    return VariedStreamPlan(streams.starts, edges[: int(edges.argmax()) + 1], length)


def stream_evaluation_plan(num_tokens: int, batch_size: int, length: int) -> StreamPlan:
    """Plan evaluation: every token but the first is a target exactly once, and streams differ in size by at most one.
    With a single stream, every token has its whole context."""
    check_sizes(num_tokens, batch_size, length)
    num_streams = min(batch_size, num_tokens - 1)
    size, longer = divmod(num_tokens - 1, num_streams)
    sizes = size + (np.arange(num_streams) < longer)
    return StreamPlan(np.cumsum(sizes) - sizes, sizes, length)


def window_plan(num_tokens: int, length: int, batch_size: int, seed: int, epoch: int) -> WindowPlan:
    """Plan training on windows that do not overlap, shuffled and cut anew each epoch at a random offset: a token is a
    target at most once.

    Every epoch has the same number of windows. Those that do not fill a batch are dropped, unless that would leave no
    batch.
    """
    check_sizes(num_tokens, batch_size, length)
    if num_tokens - 1 < length:
        raise UserError(
            f"the text has {num_tokens} tokens, fewer than one window of {length} and the token after it; "
            f"give more text or set training.length={power_below((num_tokens - 1) / 2)}"
        )
    num_windows = max(1, (num_tokens - length) // length)
    slack = num_tokens - 1 - num_windows * length
    random = np.random.default_rng([seed, epoch])
    offset = random.integers(min(slack, length - 1) + 1)
    starts = offset + length * random.permutation(num_windows)
    full = max(num_windows // batch_size * batch_size, min(num_windows, batch_size))
    return WindowPlan(starts[:full], np.full(full, length), batch_size)


def window_evaluation_plan(num_tokens: int, length: int, batch_size: int) -> WindowPlan:
    """Plan evaluation on all windows in order, the last one short: every token but the first is a target once."""
    check_sizes(num_tokens, batch_size, length)
    starts = np.arange(0, num_tokens - 1, length)
    return WindowPlan(starts, np.minimum(length, num_tokens - 1 - starts), batch_size)


USUAL, SPREAD, SHORTEST, LONGER = 0.95, 5.0, 5, 20
"""How chunk lengths vary: the probability of the usual mean, the standard deviation, the minimum, and how far the
maximum is above the mean."""


def gather(
    tokens: Tokens, starts: np.ndarray, sizes: np.ndarray, fresh: bool, apart: bool = False, rows: slice = slice(None)
) -> TokenBatch:
    """Gather rows of `sizes` tokens from `starts` on, and the tokens one later; padding is 0. Only `rows` of them are
    read, padded to the length of all."""
    columns = np.arange(sizes.max() + 1)
    is_full = bool((sizes == sizes.max()).all())
    starts, sizes = starts[rows], sizes[rows]
    places = np.where(columns <= sizes[:, None], starts[:, None] + columns, 0)
    real = columns[:-1] < sizes[:, None]  # (batch, length)
    ids = tokens[places]
    batch = TokenBatch(as_ids(ids[:, :-1]), as_ids(ids[:, 1:]), None, fresh)
    if not is_full:
        batch = TokenBatch(as_ids(ids[:, :-1] * real), as_ids(ids[:, 1:] * real), torch.from_numpy(real), fresh)
    if not apart:
        return batch
    assert isinstance(tokens, Shards), "only an encoded text knows its documents"
    documents = tokens.documents(places)
    within = None if tokens.opened else torch.from_numpy(real & (documents[:, :-1] == documents[:, 1:]))
    return batch._replace(mask=torch.from_numpy(documents[:, :-1] * real), within=within)


def as_ids(tokens: np.ndarray) -> Tensor:
    return torch.from_numpy(tokens.astype(np.int64))


def check_sizes(num_tokens: int, batch_size: int, length: int) -> None:
    for name, value in (("batch_size", batch_size), ("length", length)):
        if value < 1:
            raise UserError(f"training.{name} ({value}) must be at least 1")
    if num_tokens < 2:
        raise UserError(
            f"a text needs 2 tokens, one to read and one to predict, but this one has {num_tokens}; give more text"
        )


def check_number(number: int, num_batches: int) -> None:
    if not 0 <= number < num_batches:
        raise IndexError(f"there is no batch {number}; the epoch has {num_batches}")


def stream_remedy(num_tokens: int, length: int) -> str:
    if num_tokens - 1 >= length:
        return f"training.batch_size={power_below((num_tokens - 1) / length)}"
    return f"training.batch_size=1 training.length={power_below((num_tokens - 1) / 2)}"


def power_below(number: float) -> int:
    """Return the largest power of two that is not above `number`, at least 1."""
    return 1 << max(int(number).bit_length() - 1, 0)


def shortest_first(lengths: Sequence[Any], size: int) -> Iterator[list[int]]:
    """Yield the rows in the order of their lengths, `size` at a time."""
    order = sorted(range(len(lengths)), key=lambda row: lengths[row])
    return (order[start : start + size] for start in range(0, len(order), size))
