"""Guesses at what a stepper will write next: by a smaller stepper, or from what stands in the text already. Knows nothing of acceptance."""

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from clew.core.errors import UserError
from clew.core.masks import chunk_lengths, mask_unless_full
from clew.core.rewinding import Mark, forget, mark, restore
from clew.core.types import State
from clew.decoding.history import History, empty_history
from clew.decoding.sampling import choose
from clew.decoding.stepper import Stepper, read_to_end
from clew.decoding.taped_calls import TapedCalls


class Proposal(NamedTuple):
    """Guesses of each row's next tokens; of row r the first `counts[r]` are guesses, the others are no tokens of the text.

    `log_probs` are those of what each guess was drawn from; None where it was certain: q is one on the guess.
    """

    tokens: Tensor  # (rows, width)
    counts: Tensor  # (rows,)
    log_probs: Tensor | None  # (rows, width, vocabulary)


class Draft(Protocol):
    """Proposes tokens in every round; `settle` takes how many of them were accepted."""

    def initial_state(self, rows: int, capacity: int) -> State: ...

    def propose(self, tokens: Tensor, mask: Tensor | None, most: Tensor, uniform: Tensor | None, state: State) -> tuple[Proposal, State]:
        """At most `most` (rows,) guesses, drawn by `uniform` (rows, at least the largest `most`), or the most probable ones.

        `tokens` (rows, length) are those that the text has got since the last call: the prompt and a token, and later the guesses that
        were accepted and a token. A row without any has ended.
        """
        ...

    def settle(self, accepted: Tensor, state: State) -> State:
        """The state after `accepted` (rows,) guesses of the last proposal were."""
        ...

    def check(self, stepper: Stepper) -> None:
        """Refuses to propose to a stepper that writes other tokens."""
        ...


class Settled(NamedTuple):
    inner: State
    held: Tensor  # (rows,) how many of the tokens that come next have been read already, as guesses


class Guessing(NamedTuple):
    place: Mark
    inner: State
    read: Tensor  # (rows,) guesses that were read after the mark


class DraftStepper:
    """A smaller model's guesses: d_i ~ q(w | text, d_1 .. d_{i-1}), one step each. The last guess is not read."""

    def __init__(self, stepper: Stepper):
        self.stepper = TapedCalls(stepper)

    def check(self, stepper: Stepper) -> None:
        if self.stepper.vocabulary != stepper.vocabulary:
            raise UserError(
                f"the draft has {self.stepper.vocabulary} tokens, and the model that it writes for {stepper.vocabulary}; "
                "a draft needs the same vocabulary"
            )

    def initial_state(self, rows: int, capacity: int) -> Settled:
        return Settled(self.stepper.initial_state(rows, capacity), torch.zeros(rows, dtype=torch.long))

    def propose(
        self, tokens: Tensor, mask: Tensor | None, most: Tensor, uniform: Tensor | None, state: Settled
    ) -> tuple[Proposal, Guessing]:
        log_probs, inner = read_to_end(self.stepper, *_without_first(tokens, mask, state.held.to(tokens.device)), state.inner)
        place = mark(inner)
        guesses: list[Tensor] = []
        given: list[Tensor] = []
        for i in range(int(most.max())):
            if i:
                found, inner = self.stepper(guesses[-1][:, None], mask_unless_full((most > i)[:, None]), inner)
                log_probs = found[:, 0]
            guesses.append(choose(log_probs, None if uniform is None else uniform[:, i]))
            given.append(log_probs)
        guessed, drawn_from = torch.stack(guesses, 1), torch.stack(given, 1)
        # Where filters leave no token at all, what was chosen is no guess.
        possible = drawn_from.gather(2, guessed[..., None])[..., 0] > -torch.inf
        counts = torch.minimum(most, possible.int().cumprod(1).sum(1))
        return Proposal(guessed, counts, drawn_from), Guessing(place, inner, (most - 1).clamp(min=0))

    def settle(self, accepted: Tensor, state: Guessing) -> Settled:
        place, inner, read = state
        kept = torch.minimum(accepted, read)
        if torch.equal(kept, read):
            return Settled(inner, kept)
        # What cannot forget is read again together with what comes next, in one chunk.
        forgetful = forget(place, inner, read, kept)
        return Settled(restore(place), torch.zeros_like(kept)) if forgetful is None else Settled(forgetful, kept)


class PromptLookup:
    """What came after the last tokens when they stood in the text before (Saxena 2023): no model at all.

        d_i = y_{s + i},   s the latest place before which the last n tokens stand, for the largest n of `grams` that has one

    Guesses that reach the end of the text go on from their own beginning, as a text that repeats itself would.
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
        starts = torch.full_like(most, -1)  # where what follows the gram begins
        for n in self.grams:
            starts = torch.where(starts < 0, _after_latest(history, n), starts)
        period = (history.lengths - starts).clamp(min=1)
        slots = starts[:, None] + torch.arange(int(most.max()), device=most.device) % period[:, None]
        guesses = history.tokens.gather(1, slots.clamp(min=0)).clamp(min=0)
        return Proposal(guesses, torch.where(starts < 0, 0, most), None), history

    def settle(self, accepted: Tensor, state: History) -> History:
        return state


def _after_latest(history: History, n: int) -> Tensor:
    """The slot (rows,) behind the latest place where the last n tokens stand, the end itself left out; -1 where there is none."""
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
    """The tokens of each row behind its first `counts`, and which of them are real."""
    lengths = chunk_lengths(tokens, mask) - counts
    places = torch.arange(int(lengths.max()), device=tokens.device)
    rest = tokens.gather(1, (counts[:, None] + places).clamp(max=tokens.shape[1] - 1))
    return rest, mask_unless_full(places < lengths[:, None])
