"""A sliding window: unbounded generation with a model of bounded length."""

from collections.abc import Hashable
from typing import NamedTuple

import torch
from torch import Tensor

from clew.core.errors import UserError
from clew.core.types import State
from clew.decoding.history import History, empty_history
from clew.decoding.looks import is_without_host_reads
from clew.decoding.stepper import ASKS_THE_HOST, Stepper, read_at, read_to_end, signature_of


class SlidingState(NamedTuple):
    inner: State
    history: History


class Sliding:
    """A stepper that forgets: the inner stepper never sees more than `limit` positions of a row.

        log p(w | y_1 .. y_n) = inner log p(w | y_{s+1} .. y_n)
        s = 0 while n <= limit, then the least multiple of (limit - keep) with n - s <= limit

    When a row is full, its inner state restarts from its last `keep` tokens and fills up again. Each row restarts at
    its own time, as it would alone. Filters must wrap a Sliding; inside it they would lose their history too.
    """

    def __init__(self, stepper: Stepper, limit: int, keep: int):
        if not 1 <= keep < limit:
            raise UserError(
                f"keep ({keep}) must be at least 1 and below limit ({limit}), so that a restart leaves room for new"
                " tokens"
            )
        self.stepper = stepper
        self.limit = limit
        self.keep = keep

    @property
    def vocabulary(self) -> int:
        return self.stepper.vocabulary

    @property
    def signature(self) -> Hashable:
        inner = signature_of(self.stepper)
        return None if inner is None else (type(self), ASKS_THE_HOST, inner, self.limit, self.keep)

    def initial_state(self, rows: int, capacity: int | None = None) -> SlidingState:
        return SlidingState(self.stepper.initial_state(rows, self.limit), empty_history(rows, capacity))

    def __call__(
        self, tokens: Tensor, mask: Tensor | None, state: SlidingState, at: Tensor | None = None
    ) -> tuple[Tensor, SlidingState]:
        inner = state.inner
        history, slots = state.history.extend(tokens, mask)
        if is_without_host_reads():
            log_probs, inner = read_at(self.stepper, tokens, mask, inner, at)
            return log_probs, SlidingState(inner, history)
        full = (slots > 0) & (self._start(slots) > self._start(slots - 1))
        begins = (full if mask is None else full & mask).any(0)  # (length,)
        restarts = begins.nonzero().flatten().tolist() if bool(begins.any()) else []
        pieces, outputs = _pieces(restarts, tokens.shape[1]), []
        for begin, stop in pieces:
            if begin in restarts:
                inner = self._restarted(history, torch.minimum(slots[:, begin], history.lengths))
            within = None if at is None else (at - begin).clamp(0, stop - begin - 1)
            log_probs, inner = read_at(
                self.stepper, tokens[:, begin:stop], None if mask is None else mask[:, begin:stop], inner, within
            )
            outputs.append(log_probs)
        return _joined(pieces, outputs, at), SlidingState(inner, history)

    def calm_steps(self, state: SlidingState) -> int:
        """Return how many tokens every row can read before one of them restarts."""
        lengths, advance = state.history.lengths, self.limit - self.keep
        begun = (lengths - self.limit + advance - 1).div(advance, rounding_mode="floor").clamp(min=0)
        return int((self.limit + begun * advance - lengths).min())

    def _start(self, slots: Tensor) -> Tensor:
        """Return the first slot s of the window in which the token in a slot is read."""
        advance = self.limit - self.keep
        return ((slots - self.limit).div(advance, rounding_mode="floor") + 1).clamp(min=0) * advance

    def _restarted(self, history: History, lengths: Tensor) -> State:
        """Return the inner state after the first `lengths` (rows,) tokens of each row, reading only those in its
        window."""
        starts = self._start(lengths)
        offsets = torch.arange(self.limit, device=lengths.device)
        slots = starts[:, None] + offsets  # (rows, limit)
        window = history.tokens.gather(1, slots.clamp(max=history.tokens.shape[1] - 1))
        state = self.stepper.initial_state(len(lengths), self.limit)
        return read_to_end(self.stepper, window.clamp(min=0), slots < lengths[:, None], state)[1]


def _pieces(restarts: list[int], length: int) -> list[tuple[int, int]]:
    """Cut a chunk's columns before each restart."""
    edges = sorted({0, *restarts, length})
    return list(zip(edges, edges[1:], strict=False))


def _joined(pieces: list[tuple[int, int]], outputs: list[Tensor], at: Tensor | None) -> Tensor:
    """Join the log-probabilities of the pieces: at every position of the chunk, or at the positions `at`, computed in
    every piece."""
    if at is None:
        return torch.cat(outputs, 1)
    log_probs = outputs[0]
    for (begin, _), later in zip(pieces[1:], outputs[1:], strict=True):
        log_probs = torch.where((at >= begin)[..., None], later, log_probs)
    return log_probs
