"""The Stepper protocol, decoding's view of a model: a function from tokens and a state to log-probabilities and a
state."""

import inspect
from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, TypeGuard

import torch
from torch import Tensor

from clew.core.errors import UserError
from clew.core.masks import chunk_lengths, row_lengths
from clew.core.types import State, Tree

CHUNK = 256
"""Positions of a prompt that one call reads."""
MANY = 2**62
ASKS_THE_HOST = "asks the host"
"""Marks the signature of a stepper whose calls depend on numbers that the host reads from tensors. They cannot be
captured as a graph, except for the steps that it declares calm (`calm_steps`)."""


class Extent(NamedTuple):
    """The shortest and longest row of a chunk whose padding is on the right."""

    shortest: int
    longest: int

    def in_chunks(self, chunk: int) -> "Extent":
        """Round `shortest` down to whole chunks, so that fewer different extents occur."""
        return self if self.shortest == self.longest else Extent(self.shortest // chunk * chunk, self.longest)


class Stepper(Protocol):
    """log p(next token | all tokens read so far), for every position of a chunk.

        log_probs[row, t], state' = stepper(tokens, mask, state)

    Prefill (a prompt), step (one token) and verification (a guess of several tokens) are this same call. `tokens` is
    (rows, length), `log_probs` (rows, length, vocabulary), `mask` (rows, length) with True where real, or None where
    all are. In every chunk a row's real positions come first; after the last of them `log_probs` is unspecified and the
    row's state is frozen. A call consumes its state: use `copy_state` to branch. Optionally, a call takes `at`, the
    positions to score (see `PickingStepper`), and `initial_state` takes `starts_from` (see `StartingStepper`). An
    optional `signature` names everything that a call depends on besides its arguments, models as weak references:
    steppers with equal signatures may share a captured step (see `engine`). A stepper without one, or with None, runs
    eagerly. One whose calls depend on other Python state, such as a counter, must have None. No log-probability is
    above 0, but probabilities need not add up to one: mass that a constraint refuses is lost (see `filters`).
    """

    @property
    def vocabulary(self) -> int: ...

    def initial_state(self, rows: int, capacity: int | None = None) -> State:
        """Return the state before the first token, with room for `capacity` positions (None: it grows)."""
        ...

    def __call__(self, tokens: Tensor, mask: Tensor | None, state: State) -> tuple[Tensor, State]: ...


class PickingStepper(Stepper, Protocol):
    """A stepper that computes log-probabilities only at requested positions of a chunk, so that the output layer skips
    the others.

        log_probs[row, i], state' = stepper(tokens, mask, state, at=at),   those at position at[row, i] of the chunk

    `at` is (rows, places) and `log_probs` (rows, places, vocabulary). The whole chunk is read. `read_at` calls either
    kind.
    """

    def __call__(
        self, tokens: Tensor, mask: Tensor | None, state: State, at: Tensor | None = None
    ) -> tuple[Tensor, State]: ...


class StartingStepper(Stepper, Protocol):
    """A stepper whose initial state is made on the model's device from numbers and a tree of tensors, `starts_from`, so
    that a captured call can include it."""

    @property
    def starts_from(self) -> Tree: ...

    def initial_state(self, rows: int, capacity: int | None = None, starts_from: Tree = None) -> State:
        """Return the initial state; `starts_from` replaces the stepper's own tree unless it is None."""
        ...


def calm_steps(stepper: Any, state: State) -> int:
    """Return how many one-token steps can follow in which a stepper does not ask the host, by its method of this name;
    the host reads once.

    A stepper without the method asks at every step if its signature is marked ASKS_THE_HOST, else never.
    """
    if hasattr(stepper, "calm_steps"):
        return int(stepper.calm_steps(state))
    return 0 if names(signature_of(stepper), ASKS_THE_HOST) else MANY


def names(signature: Any, part: str) -> bool:
    """Whether a signature contains a part at any depth."""
    return signature == part if not isinstance(signature, tuple) else any(names(each, part) for each in signature)


class Start(NamedTuple):
    """How an initial state is made: from a tree of tensors, by a function, which depends on some numbers."""

    made_from: Tree
    state: Callable[[Tree], State]
    numbers: tuple[int, ...]


def start_of(stepper: Stepper, state: State, rows: int, capacity: int) -> Start:
    """Start from a given state, or from the stepper's initial state if it is None."""
    if state is None and (made_from := getattr(stepper, "starts_from", None)) is not None:
        starting: Any = stepper
        return Start(
            made_from, lambda starts_from: starting.initial_state(rows, capacity, starts_from), (rows, capacity)
        )
    return Start(stepper.initial_state(rows, capacity) if state is None else state, lambda state: state, ())


def signature_of(*steppers: Any) -> Hashable:
    """Return the signatures of steppers; None if one has none."""
    signatures = tuple(getattr(stepper, "signature", None) for stepper in steppers)
    return None if None in signatures else signatures


def prefill(
    stepper: Stepper, tokens: Tensor, mask: Tensor | None, state: State, chunk: int = CHUNK
) -> tuple[Tensor, State]:
    """Read a prompt without empty rows with `read_to_end`."""
    return read_to_end(stepper, tokens, mask, state, chunk, prompt_extent(tokens, mask))


def read_to_end(
    stepper: Stepper,
    tokens: Tensor,
    mask: Tensor | None,
    state: State,
    chunk: int = CHUNK,
    extent: Extent | None = None,
) -> tuple[Tensor, State]:
    """Return log_probs (rows, vocabulary) at the last real position of each row, unspecified for an empty row, and the
    state after it.

    Each call reads `chunk` positions, up to the end of the longest row, and requests one position per row. With an
    `extent`, the host does not read the lengths.
    """
    lengths = chunk_lengths(tokens, mask)
    if extent is None:
        extent = extent_of(tokens, [tokens.shape[1]] * len(tokens) if mask is None else lengths.tolist())
    shortest, longest = extent
    last: Tensor | None = None
    for start in range(0, longest, chunk):
        stop = min(start + chunk, longest)
        real = None if mask is None or shortest >= stop else mask[:, start:stop]
        ends = lengths - 1 - start  # (rows,) position of the row's end in this chunk, if it is inside
        at = None if stop - start == 1 else ends.clamp(0, stop - start - 1)[:, None]
        log_probs, state = read_at(stepper, tokens[:, start:stop], real, state, at)
        end_log_probs = log_probs[:, 0]  # (rows, vocabulary)
        last = end_log_probs if last is None else torch.where((ends >= 0)[:, None], end_log_probs, last)
    assert last is not None
    return last, state


def read_at(
    stepper: Stepper, tokens: Tensor, mask: Tensor | None, state: State, at: Tensor | None
) -> tuple[Tensor, State]:
    """Read a chunk and return log_probs at the positions `at` (rows, places), or at all. A stepper that takes no `at`
    computes all."""
    if at is None:
        return stepper(tokens, mask, state)
    if _takes_positions(stepper):
        return stepper(tokens, mask, state, at=at)
    log_probs, state = stepper(tokens, mask, state)
    return picked(log_probs, at), state


def picked(x: Tensor, at: Tensor | None) -> Tensor:
    """Select the positions `at` (rows, places) of `x` (rows, length, ...), or all."""
    return x if at is None else x[torch.arange(len(x), device=x.device)[:, None], at]


def _takes_positions(stepper: Stepper) -> TypeGuard[PickingStepper]:
    return _has_positions(type(stepper))


@lru_cache
def _has_positions(kind: type[Stepper]) -> bool:
    # Inspect the method instead of an attribute: a subclass may override the call without `at`.
    return "at" in inspect.signature(kind.__call__).parameters


def drop_padding(tokens: Tensor, mask: Tensor | None, extent: Extent) -> tuple[Tensor, Tensor | None]:
    """Drop columns that are padding in every row; the mask is None if everything is real."""
    longest = extent.longest
    return tokens[:, :longest], None if mask is None or extent.shortest == longest else mask[:, :longest]


def prompt_extent(tokens: Tensor, mask: Tensor | None) -> Extent:
    """Return the extent of a prompt, and check that it has no empty row and pads on the right. The host reads once."""
    if mask is None:
        lengths, late = [tokens.shape[1]] * len(tokens), []
    else:
        lengths, late = torch.stack([row_lengths(mask), (mask[:, 1:] & ~mask[:, :-1]).any(1).long()]).tolist()
    if 1 in late:
        raise UserError(f"row {late.index(1)} of the prompt has padding before a real token; pad on the right")
    if 0 in lengths:
        raise UserError(
            f"row {lengths.index(0)} of the prompt is empty; each row needs at least one token, such as the start token"
        )
    return extent_of(tokens, lengths)


def extent_of(tokens: Tensor, lengths: list[int]) -> Extent:
    return Extent(min(lengths, default=tokens.shape[1]), max(lengths, default=tokens.shape[1]))
