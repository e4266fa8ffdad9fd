"""Drafts for speculative decoding: guesses by a smaller stepper, or copied from the text so far. Knows nothing about
acceptance."""

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from clew.core.errors import UserError
from clew.core.masks import chunk_lengths, mask_unless_full
from clew.core.rewinding import Mark, forget, mark, restore
from clew.core.types import State
from clew.decoding.history import History, empty_history
from clew.decoding.sampling import choose_token
from clew.decoding.stepper import Stepper, read_to_end
from clew.decoding.taped_calls import TapedCalls


class Proposal(NamedTuple):
    """Guesses of each row's next tokens: the first `counts[r]` tokens of row r; the rest is padding.

    `log_probs` are those of the distribution q that each guess was drawn from; None if the draft is deterministic:
    q(guess) = 1.
    """

    tokens: Tensor  # (rows, width)
    counts: Tensor  # (rows,)
    log_probs: Tensor | None  # (rows, width, vocabulary)


class Draft(Protocol):
    """Proposes tokens in every round; `settle` is called with the number of accepted ones.

    A draft affects only how many guesses are accepted, never what is written.
    """

    def initial_state(self, rows: int, capacity: int) -> State: ...

    def propose(
        self, tokens: Tensor, mask: Tensor | None, most: Tensor, uniform: Tensor | None, state: State
    ) -> tuple[Proposal, State]:
        """Propose at most `most` (rows,) guesses, drawn by `uniform` (rows, at least the largest `most`), or the most
        probable ones.

        `tokens` (rows, length) are new in the text since the last call: first the prompt and a token, later the
        accepted guesses and a token. A row without any has ended.
        """
        ...

    def settle(self, accepted: Tensor, state: State) -> State:
        """Return the state after the first `accepted` (rows,) guesses of the last proposal."""
        ...

    def check(self, stepper: Stepper) -> None:
        """Raise a UserError if the stepper has another vocabulary."""
        ...


class Settled(NamedTuple):
    inner: State
    num_read: Tensor  # (rows,) how many of the next tokens have already been read, as guesses


class Guessing(NamedTuple):
    place: Mark
    inner: State
    read: Tensor  # (rows,) guesses that were read after the mark


class DraftStepper:
    """Guesses of a smaller model: d_i ~ q(w | text, d_1 .. d_{i-1}), one step each. The last guess is not read."""

    def __init__(self, stepper: Stepper):
        self.stepper = TapedCalls(stepper)

    def check(self, stepper: Stepper) -> None:
        if self.stepper.vocabulary != stepper.vocabulary:
            raise UserError(
                f"the draft model has a vocabulary of {self.stepper.vocabulary} tokens and the main model one of"
                f" {stepper.vocabulary}; a draft needs the same vocabulary"
            )

    def initial_state(self, rows: int, capacity: int) -> Settled:
        return Settled(self.stepper.initial_state(rows, capacity), torch.zeros(rows, dtype=torch.long))

    def propose(
        self, tokens: Tensor, mask: Tensor | None, most: Tensor, uniform: Tensor | None, state: Settled
    ) -> tuple[Proposal, Guessing]:
        log_probs, inner = read_to_end(
            self.stepper, *_without_first(tokens, mask, state.num_read.to(tokens.device)), state.inner
        )
        place = mark(inner)
        guesses: list[Tensor] = []
        draft_log_probs: list[Tensor] = []
        for i in range(int(most.max())):
            if i:
                step_log_probs, inner = self.stepper(guesses[-1][:, None], mask_unless_full((most > i)[:, None]), inner)
                log_probs = step_log_probs[:, 0]
            guesses.append(choose_token(log_probs, None if uniform is None else uniform[:, i]))
            draft_log_probs.append(log_probs)
        guessed, drawn_from = torch.stack(guesses, 1), torch.stack(draft_log_probs, 1)
        # If filters leave no token possible, the chosen one is not a guess.
        possible = drawn_from.gather(2, guessed[..., None])[..., 0] > -torch.inf
        counts = torch.minimum(most, possible.int().cumprod(1).sum(1))
        return Proposal(guessed, counts, drawn_from), Guessing(place, inner, (most - 1).clamp(min=0))

    def settle(self, accepted: Tensor, state: Guessing) -> Settled:
        place, inner, read = state
        kept = torch.minimum(accepted, read)
        if torch.equal(kept, read):
            return Settled(inner, kept)
        # A state that cannot forget goes back to the mark; accepted guesses are read again with the next tokens, in one
        # chunk.
        forgetful = forget(place, inner, read, kept)
        return Settled(restore(place), torch.zeros_like(kept)) if forgetful is None else Settled(forgetful, kept)


class PromptLookup:
    """Prompt lookup (Saxena 2023): guess what followed the last tokens at their latest earlier occurrence in the text.
    Needs no model.

        d_i = y_{s + i},   s the latest position after an earlier occurrence of the last n tokens,
                           for the largest n of `grams` with one

    Guesses that reach the end of the text continue from their own start, as in a text that repeats itself.
    """

    def __init__(self, grams: tuple[int, ...] = (8, 4, 3, 2)):
        self.grams = grams

    def check(self, stepper: Stepper) -> None: ...

    def initial_state(self, rows: int, capacity: int) -> History:
        return empty_history(rows, capacity)

    def propose(
        self, tokens: Tensor, mask: Tensor | None, most: Tensor, uniform: Tensor | None, state: History
    ) -> tuple[Proposal, History]:
        history, _ = state.extend(tokens, mask)
        starts = torch.full_like(most, -1)  # slot after the earlier occurrence
        for n in self.grams:
            starts = torch.where(starts < 0, _after_latest(history, n), starts)
        period = (history.lengths - starts).clamp(min=1)
        slots = starts[:, None] + torch.arange(int(most.max()), device=most.device) % period[:, None]
        guesses = history.tokens.gather(1, slots.clamp(min=0)).clamp(min=0)
        return Proposal(guesses, torch.where(starts < 0, 0, most), None), history

    def settle(self, accepted: Tensor, state: History) -> History:
        return state


def _after_latest(history: History, n: int) -> Tensor:
    """Return the slot (rows,) after the latest earlier occurrence of the last n tokens; -1 if there is none."""
    read, lengths = history
    if read.shape[1] <= n:
        return torch.full_like(lengths, -1)
    suffix = lengths[:, None] + torch.arange(-n, 0, device=read.device)
    last = read.gather(1, suffix.clamp(min=0))  # (rows, n)
    same = (read.unfold(1, n, 1) == last[:, None]).all(-1)  # (rows, places)
    places = torch.arange(same.shape[1], device=read.device)
    same &= places + n < lengths[:, None]
    return torch.where(same, places + n, -1).amax(1)


def _without_first(tokens: Tensor, mask: Tensor | None, counts: Tensor) -> tuple[Tensor, Tensor | None]:
    """Drop the first `counts` real tokens of each row; return the rest and its mask."""
    lengths = chunk_lengths(tokens, mask) - counts
    places = torch.arange(int(lengths.max()), device=tokens.device)
    rest = tokens.gather(1, (counts[:, None] + places).clamp(max=tokens.shape[1] - 1))
    return rest, mask_unless_full(places < lengths[:, None])
