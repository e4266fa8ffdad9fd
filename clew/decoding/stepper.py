"""What decoding knows of a model: a function from tokens and a state to log-probabilities and a state."""

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
"""Positions of a prompt that are read by one call."""
MANY = 2**62
ASKS_THE_HOST = "asks the host"
"""Stands in the signature of a stepper whose calls depend on numbers that it reads from tensors: no graph can be captured of them, but for
steps in a row that it says to be alike (`calm_steps`)."""


class Extent(NamedTuple):
    """How many positions the rows of a chunk have, which begin with the real ones."""

    shortest: int
    longest: int

    def in_chunks(self, chunk: int) -> "Extent":
        """The same where only chunks are told apart that are full in every row."""
        return self if self.shortest == self.longest else Extent(self.shortest // chunk * chunk, self.longest)


class Stepper(Protocol):
    """log p(next token | all tokens read so far), for every position of a chunk.

        log_probs[row, t], state' = stepper(tokens, mask, state)

    Prefill (a prompt), step (one token) and verification (a guess of several tokens) are this same call.
    `tokens` is (rows, length), `log_probs` (rows, length, vocabulary), `mask` (rows, length) with True where real, or None where all are.
    In every chunk a row's real positions come first; after the last of them `log_probs` is unspecified and the row's state is frozen.
    The state given to a call is consumed by it: `copy_state` to branch.
    A call may also take `at`, the positions that are wanted (see `PickingStepper`), and `initial_state` what it is made from (see
    `StartingStepper`).
    One that has a `signature` says with it all that a call depends on besides its arguments, a model as a weak reference: steppers with
    equal signatures may share a captured step (see `engine`). One without it, or with None, runs eagerly.
    No log-probability is above 0, but they need not add up to one: what a constraint refuses is lost (see `filters`).
    """

    @property
    def vocabulary(self) -> int: ...

    def initial_state(self, rows: int, capacity: int | None = None) -> State:
        """The state before anything is read, with room for `capacity` positions (None: it grows)."""
        ...

    def __call__(self, tokens: Tensor, mask: Tensor | None, state: State) -> tuple[Tensor, State]: ...


class PickingStepper(Stepper, Protocol):
    """A stepper that gives log-probabilities at some positions of a chunk alone, so that a model need not apply its output layer at others.

        log_probs[row, i], state' = stepper(tokens, mask, state, at=at),   those at position at[row, i] of the chunk

    `at` is (rows, places) and `log_probs` (rows, places, vocabulary). The whole chunk is read. `read_at` calls either kind.
    """

    def __call__(self, tokens: Tensor, mask: Tensor | None, state: State, at: Tensor | None = None) -> tuple[Tensor, State]: ...


class StartingStepper(Stepper, Protocol):
    """A stepper whose first state is made on its model's device from numbers and a tree of tensors, `starts_from`, so that making it may be
    part of a captured call."""

    @property
    def starts_from(self) -> Tree: ...

    def initial_state(self, rows: int, capacity: int | None = None, starts_from: Tree = None) -> State:
        """From another tree than its own, where that is not None."""
        ...


def calm_steps(stepper: Any, state: State) -> int:
    """How many steps of one token may follow in which a stepper has no reason to ask the host, as its method of this name says; the host
    looks once. One that asks and has no method asks at every step."""
    if hasattr(stepper, "calm_steps"):
        return int(stepper.calm_steps(state))
    return 0 if names(signature_of(stepper), ASKS_THE_HOST) else MANY


def names(signature: Any, part: str) -> bool:
    """Whether a signature has a part at any depth."""
    return signature == part if not isinstance(signature, tuple) else any(names(each, part) for each in signature)


class Start(NamedTuple):
    """Where a text begins: the state that is made from some tensors, and the numbers that this depends on."""

    made_from: Tree
    state: Callable[[Tree], State]
    numbers: tuple[int, ...]


def start_of(stepper: Stepper, state: State, rows: int, capacity: int) -> Start:
    """From a state that is given, or the stepper's first one."""
    if state is None and (made_from := getattr(stepper, "starts_from", None)) is not None:
        starting: Any = stepper
        return Start(made_from, lambda starts_from: starting.initial_state(rows, capacity, starts_from), (rows, capacity))
    return Start(stepper.initial_state(rows, capacity) if state is None else state, lambda state: state, ())


def signature_of(*steppers: Any) -> Hashable:
    """What the steppers say that they depend on; None where one does not say."""
    found = tuple(getattr(stepper, "signature", None) for stepper in steppers)
    return None if None in found else found


def prefill(stepper: Stepper, tokens: Tensor, mask: Tensor | None, state: State, chunk: int = CHUNK) -> tuple[Tensor, State]:
    """Reads a prompt, which has no empty row: `read_to_end`."""
    return read_to_end(stepper, tokens, mask, state, chunk, prompt_extent(tokens, mask))


def read_to_end(
    stepper: Stepper, tokens: Tensor, mask: Tensor | None, state: State, chunk: int = CHUNK, extent: Extent | None = None
) -> tuple[Tensor, State]:
    """Each row's log_probs (rows, vocabulary) at its last real position, unspecified where it has none, and the state after it.

    The stepper reads `chunk` positions a call, up to the longest row's end, and is asked for one position a row. With an `extent` the host
    is not asked for the rows' lengths.
    """
    lengths = chunk_lengths(tokens, mask)
    if extent is None:
        extent = extent_of(tokens, [tokens.shape[1]] * len(tokens) if mask is None else lengths.tolist())
    shortest, longest = extent
    last: Tensor | None = None
    for start in range(0, longest, chunk):
        stop = min(start + chunk, longest)
        real = None if mask is None or shortest >= stop else mask[:, start:stop]
        ends = lengths - 1 - start  # (rows,) where in this chunk the row ends, if it does
        at = None if stop - start == 1 else ends.clamp(0, stop - start - 1)[:, None]
        log_probs, state = read_at(stepper, tokens[:, start:stop], real, state, at)
        here = log_probs[:, 0]  # (rows, vocabulary)
        last = here if last is None else torch.where((ends >= 0)[:, None], here, last)
    assert last is not None
    return last, state


def read_at(stepper: Stepper, tokens: Tensor, mask: Tensor | None, state: State, at: Tensor | None) -> tuple[Tensor, State]:
    """Reads a chunk for its log_probs at the positions `at` (rows, places), or at all; those of a plain stepper are picked afterwards."""
    if at is None:
        return stepper(tokens, mask, state)
    if _takes_positions(stepper):
        return stepper(tokens, mask, state, at=at)
    log_probs, state = stepper(tokens, mask, state)
    return picked(log_probs, at), state


def picked(x: Tensor, at: Tensor | None) -> Tensor:
    """`x` (rows, length, ...) at the positions `at` (rows, places), or at all."""
    return x if at is None else x[torch.arange(len(x), device=x.device)[:, None], at]


def _takes_positions(stepper: Stepper) -> TypeGuard[PickingStepper]:
    return _has_positions(type(stepper))


@lru_cache
def _has_positions(kind: type[Stepper]) -> bool:
    # The method is looked at, not an attribute: a subclass whose own call takes no positions is then called without.
    return "at" in inspect.signature(kind.__call__).parameters


def trimmed(tokens: Tensor, mask: Tensor | None, extent: Extent) -> tuple[Tensor, Tensor | None]:
    """A prompt without the columns that no row has, and its mask, None where all is real."""
    longest = extent.longest
    return tokens[:, :longest], None if mask is None or extent.shortest == longest else mask[:, :longest]


def prompt_extent(tokens: Tensor, mask: Tensor | None) -> Extent:
    """That of a prompt, which has no empty row, and padding on the right alone; the host looks once."""
    if mask is None:
        lengths, late = [tokens.shape[1]] * len(tokens), []
    else:
        lengths, late = torch.stack([row_lengths(mask), (mask[:, 1:] & ~mask[:, :-1]).any(1).long()]).tolist()
    if 1 in late:
        raise UserError(f"row {late.index(1)} of the prompt has padding before a real token; pad on the right")
    if 0 in lengths:
        raise UserError(f"row {lengths.index(0)} of the prompt is empty; each row needs at least one token, such as the start token")
    return extent_of(tokens, lengths)


def extent_of(tokens: Tensor, lengths: list[int]) -> Extent:
    return Extent(min(lengths, default=tokens.shape[1]), max(lengths, default=tokens.shape[1]))
