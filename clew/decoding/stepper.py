"""What decoding knows of a model: a function from tokens and a state to log-probabilities and a state."""

from collections.abc import Hashable, Iterator
from typing import Any, Protocol

import torch
from torch import Tensor

from clew.core.errors import UserError
from clew.core.masks import chunk_lengths, row_lengths
from clew.core.types import State

ASKS_THE_HOST = "asks the host"
"""Stands in the signature of a stepper whose calls depend on numbers that it reads from tensors: no graph can be captured of it."""


class Stepper(Protocol):
    """log p(next token | all tokens read so far), for every position of a chunk.

        log_probs[row, t], state' = stepper(tokens, mask, state)

    Prefill (a prompt), step (one token) and verification (a guess of several tokens) are this same call.
    `tokens` is (rows, length), `log_probs` (rows, length, vocabulary), `mask` (rows, length) with True where real, or None where all are.
    In every chunk a row's real positions come first; after the last of them `log_probs` is unspecified and the row's state is frozen.
    The state given to a call is consumed by it: `copy_state` to branch.
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


def signature_of(*steppers: Any) -> Hashable:
    """What the steppers say that they depend on; None where one does not say."""
    found = tuple(getattr(stepper, "signature", None) for stepper in steppers)
    return None if None in found else found


def prefill(stepper: Stepper, tokens: Tensor, mask: Tensor | None, state: State, chunk: int = 256) -> tuple[Tensor, State]:
    """Reads a prompt, which has no empty row: `read_to_end`."""
    _check_prompt(tokens, mask)
    return read_to_end(stepper, tokens, mask, state, chunk)


def read_to_end(stepper: Stepper, tokens: Tensor, mask: Tensor | None, state: State, chunk: int = 256) -> tuple[Tensor, State]:
    """Each row's log_probs (rows, vocabulary) at its last real position, unspecified where it has none, and the state after it.

    Only `chunk` positions of log-probabilities exist at a time, however many there are.
    """
    rows, lengths = len(tokens), chunk_lengths(tokens, mask)
    last: Tensor | None = None
    for start, log_probs, new_state in read_chunks(stepper, tokens, mask, state, chunk):
        state = new_state
        index = lengths - 1 - start  # (rows,) where in this chunk the row ends, if it does
        here = log_probs[torch.arange(rows, device=tokens.device), index.clamp(0, log_probs.shape[1] - 1)]  # (rows, vocabulary)
        last = here if last is None else torch.where((index >= 0)[:, None], here, last)
    assert last is not None
    return last, state


def read_chunks(stepper: Stepper, tokens: Tensor, mask: Tensor | None, state: State, chunk: int) -> Iterator[tuple[int, Tensor, State]]:
    """Feeds tokens piece by piece: where each piece starts, its log_probs, and the state after it. Stops at the longest row's end."""
    length = tokens.shape[1] if mask is None else int(row_lengths(mask).max())
    for start in range(0, length, chunk):
        piece = slice(start, min(start + chunk, length))
        real = None if mask is None or bool(mask[:, piece].all()) else mask[:, piece]
        log_probs, state = stepper(tokens[:, piece], real, state)
        yield start, log_probs, state


def _check_prompt(tokens: Tensor, mask: Tensor | None) -> None:
    if mask is None:
        empty = [0] if tokens.shape[1] == 0 else []
    else:
        empty = (row_lengths(mask) == 0).nonzero().flatten().tolist()
        late = (mask[:, 1:] & ~mask[:, :-1]).any(1).nonzero().flatten().tolist()
        if late:
            raise UserError(f"row {late[0]} of the prompt has padding before a real token; pad on the right")
    if empty:
        raise UserError(f"row {empty[0]} of the prompt is empty; each row needs at least one token, such as the start token")
