"""Speculative decoding (Leviathan et al. 2023; Chen et al. 2023): a draft guesses several tokens, the stepper reads
them in one call, and rejected guesses are taken back. The output is that of the stepper alone: the same tokens in
greedy decoding, the same distribution in sampling.

In a round the stepper reads the last token of a row and its guesses d_1 .. d_c, and gives p_0 .. p_c. Then

    d_i is accepted with probability min(1, p_{i-1}(d_i) / q_i(d_i)), where d_i ~ q_i, up to the first rejection
    y ~ max(0, p_a - q_{a+1}) / Z   after a accepted guesses and a rejected one
    y ~ p_c                         if all were accepted

so that a round writes a + 1 tokens. Each row accepts its own number of guesses. The next chunk of a row has one guess
more after a round that accepts all guesses, and one fewer after a round that accepts none.

A recurrent or mixed model reads accepted guesses a second time after a rejection, since its states after each position
are not kept. On a GPU a round runs eagerly and waits for the device several times.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from clew.core.errors import UserError
from clew.core.masks import chunk_lengths, mask_unless_full
from clew.core.rewinding import mark, rewind
from clew.core.state import select_rows
from clew.core.types import State
from clew.decoding.drafts import Draft, Proposal
from clew.decoding.ends import End, check_max_new, constant, end_tokens
from clew.decoding.sampling import (
    Sequences,
    Step,
    check_possible,
    choose_token,
    collected,
    each_token,
    invert_cumulative,
    most_probable,
    numbers_of,
    precise,
    remaining,
    uniform_numbers,
)
from clew.decoding.stepper import Stepper, prefill
from clew.decoding.taped_calls import TapedCalls

LONGEST = 16
"""The most guesses in a round. The ring of a window can take back four times as many."""

GUESS, ACCEPT, DRAW = range(3)
"""Uses of the three random numbers that each position of a row has. They belong to positions, so that chunk sizes do
not change them."""


class Acceptance(NamedTuple):
    """Per row: calls of the stepper after the prompt, guesses proposed, and guesses accepted."""

    rounds: Tensor  # (rows,)
    proposed: Tensor  # (rows,)
    accepted: Tensor  # (rows,)


class Verdict(NamedTuple):
    accepted: Tensor  # (rows,) number of guesses
    following: Tensor  # (rows,) the token written after them


class Frame(NamedTuple):
    """The batch between two rounds."""

    last: Tensor  # (rows,) the token that the stepper reads next
    fresh: Tensor  # (rows, length) tokens that the draft has not read, ending with `last`
    is_fresh: Tensor  # (rows, length) which of them are real
    lengths: Tensor  # (rows,) tokens written
    sizes: Tensor  # (rows,) guesses in the next chunk
    running: Tensor  # (rows,)
    state: State
    draft: State  # None before the first round


def speculative(
    stepper: Stepper,
    draft: Draft,
    prompt: Tensor,
    mask: Tensor | None = None,
    state: State = None,
    *,
    max_new: int,
    end: End = None,
    seed: int | None = None,
    row_numbers: Sequence[int] | None = None,
    chunk: int = 4,
) -> Iterator[Tensor]:
    """Yield the tokens of `greedy`, or with a seed tokens distributed as those of `sample`: one tensor (rows,) per
    step.

    `chunk` is the number of guesses in the first round. A given `state` needs room for the prompt, `max_new` and
    LONGEST tokens.
    """
    steps, _ = _begun(stepper, draft, prompt, mask, state, max_new, end, seed, row_numbers, chunk)
    return each_token(steps)


def speculative_sequences(
    stepper: Stepper,
    draft: Draft,
    prompt: Tensor,
    mask: Tensor | None = None,
    state: State = None,
    *,
    max_new: int,
    end: End = None,
    seed: int | None = None,
    row_numbers: Sequence[int] | None = None,
    chunk: int = 4,
) -> tuple[Sequences, Acceptance]:
    """Everything that `speculative` yields, as one value, and how well the draft guessed it."""
    steps, acceptance = _begun(stepper, draft, prompt, mask, state, max_new, end, seed, row_numbers, chunk)
    return collected(steps), acceptance


def judge(log_probs: Tensor, proposal: Proposal, uniform: Tensor | None) -> Verdict:
    """Decide which guesses are accepted, and choose the token after them.

    `log_probs` (rows, 1 + width, vocabulary) are the stepper's. `uniform` (rows, 1 + width, 3) are the random numbers
    of each position; without them, a guess is accepted if it is the most probable token.
    """
    tokens, counts, width = proposal.tokens, proposal.counts, proposal.tokens.shape[1]
    is_guess = torch.arange(width, device=tokens.device) < counts[:, None]
    if uniform is None:
        choices = most_probable(log_probs)  # (rows, 1 + width)
        accepted = _leading((choices[:, :-1] == tokens) & is_guess)
        return Verdict(accepted, choices.gather(1, accepted[:, None])[:, 0])
    dtype = precise(log_probs.device)
    uniform, probs = uniform.to(dtype), log_probs.to(dtype).softmax(-1)
    if proposal.log_probs is None:
        drawn_from = functional.one_hot(tokens, log_probs.shape[-1]).to(dtype)
    else:
        drawn_from = proposal.log_probs.to(dtype).softmax(-1)
    # (rows, width)
    of_stepper, of_draft = (each.gather(2, tokens[..., None])[..., 0] for each in (probs[:, :-1], drawn_from))
    accepted = _leading((uniform[:, :-1, ACCEPT] * of_draft < of_stepper) & is_guess)
    rows = torch.arange(len(tokens), device=tokens.device)
    remaining_probs = probs[rows, accepted]  # (rows, vocabulary)
    if width:
        refused = (remaining_probs - drawn_from[rows, accepted.clamp(max=width - 1)]).clamp(min=0)
        # If rounding leaves no mass after a rejection, p and q are equal.
        remaining_probs = torch.where(((accepted < counts) & (refused.sum(-1) > 0))[:, None], refused, remaining_probs)
    return Verdict(accepted, invert_cumulative(remaining_probs.log(), uniform[rows, accepted, DRAW]))


def _leading(accepted: Tensor) -> Tensor:
    """Count (rows,) the True values before the first False."""
    return accepted.int().cumprod(1).sum(1)


def _begun(
    stepper: Stepper,
    draft: Draft,
    prompt: Tensor,
    mask: Tensor | None,
    state: State,
    max_new: int,
    end: End,
    seed: int | None,
    row_numbers: Sequence[int] | None,
    chunk: int,
) -> tuple[Iterator[Step], Acceptance]:
    check_max_new(max_new)
    if not 1 <= chunk <= LONGEST:
        raise UserError(
            f"chunk ({chunk}) must be at least 1 and at most {LONGEST}: the number of tokens that a draft guesses at"
            " first"
        )
    draft.check(stepper)
    ends = end_tokens(end, stepper.vocabulary)
    numbers = None
    if seed is not None:
        drawn = uniform_numbers(seed, numbers_of(prompt, row_numbers))(3 * max_new)
        numbers = drawn.T.reshape(len(prompt), max_new, 3).to(prompt.device)
    state = stepper.initial_state(len(prompt), prompt.shape[1] + max_new + LONGEST) if state is None else state
    acceptance = Acceptance(*torch.zeros(3, len(prompt), dtype=torch.long, device=prompt.device).unbind(0))
    rounds = Rounds(TapedCalls(stepper), draft, ends, max_new, numbers, acceptance)
    return rounds.steps(prompt, mask, state, chunk), acceptance


class Rounds:
    """Run rounds until every row has ended, and yield the steps that all rows have written."""

    def __init__(
        self,
        stepper: Stepper,
        draft: Draft,
        ends: tuple[int, ...],
        max_new: int,
        numbers: Tensor | None,
        acceptance: Acceptance,
    ):
        self.stepper, self.draft, self.ends, self.max_new = stepper, draft, ends, max_new
        self.numbers = numbers  # (rows, max_new, 3)
        self.acceptance = acceptance

    @torch.inference_mode()
    def steps(self, prompt: Tensor, mask: Tensor | None, state: State, chunk: int) -> Iterator[Step]:
        log_probs, state = prefill(self.stepper, prompt, mask, state)
        first = choose_token(log_probs, None if self.numbers is None else self.numbers[:, 0, DRAW])
        chosen = log_probs.gather(1, first[:, None])
        check_possible(chosen[:, 0], torch.ones_like(first, dtype=torch.bool))
        page = Page(len(prompt), self.max_new, chosen)
        one, places = torch.ones_like(first), torch.arange(len(prompt), device=prompt.device)
        page.write(places, first[:, None], chosen, one)
        running = ~self.has_ended(first) & (one < self.max_new)
        frame = Frame(first, *_appended(prompt, mask, first), one, chunk * one, running, state, None)
        yield from page.ready(places, frame.running)
        while bool(frame.running.any()):
            if (rows := remaining(frame.running, frame)) is not None:
                frame, places = select_rows(frame, rows, rows), places[rows]
            frame = self.round(frame, places, page)
            yield from page.ready(places, frame.running)

    def round(self, frame: Frame, places: Tensor, page: "Page") -> Frame:
        # A row writes one token more than it accepts, so that no guess can pass max_new.
        most = torch.minimum(frame.sizes, self.max_new - 1 - frame.lengths).clamp(min=0) * frame.running
        uniform = self.numbers_for(frame, places, int(most.max()))
        proposal, draft = self.proposed(frame, most, uniform)
        width = proposal.tokens.shape[1]
        tokens, columns = (
            torch.cat([frame.last[:, None], proposal.tokens], 1),
            torch.arange(width + 1, device=places.device),
        )
        real = mask_unless_full(columns < ((proposal.counts + 1) * frame.running)[:, None])
        place = mark(frame.state)
        log_probs, state = self.stepper(tokens, real, frame.state)
        accepted, following = judge(log_probs, proposal, None if uniform is None else uniform[:, : width + 1])
        written = torch.where(columns < accepted[:, None], functional.pad(proposal.tokens, (0, 1)), following[:, None])
        is_end = self.has_ended(written) & (columns <= accepted[:, None])
        ends = is_end.any(1)
        counts = torch.where(ends, is_end.int().argmax(1) + 1, accepted + 1) * frame.running
        chosen, lengths = log_probs.gather(2, written[..., None])[..., 0], frame.lengths + counts
        check_possible(chosen, columns < counts[:, None])
        page.write(places, written, chosen, counts)
        self.count(places, proposal.counts, torch.minimum(accepted, counts), frame.running)
        running = frame.running & ~ends & (lengths < self.max_new)
        if not bool(running.any()):
            return frame._replace(running=running)
        state = rewind(self.stepper, place, state, tokens, real, (accepted + 1) * frame.running)
        draft = self.draft.settle(accepted * frame.running, draft)
        is_fresh = columns < (counts * running)[:, None]
        return Frame(
            following,
            written,
            is_fresh,
            lengths,
            _next_sizes(frame.sizes, proposal.counts, accepted),
            running,
            state,
            draft,
        )

    def proposed(self, frame: Frame, most: Tensor, uniform: Tensor | None) -> tuple[Proposal, State]:
        """Return the draft's guesses, cut to the largest count of a row."""
        if not bool(most.any()):  # every row has only its last token to write
            return Proposal(most.new_zeros(len(most), 0), most, None), frame.draft
        draft = frame.draft
        if draft is None:
            draft = self.draft.initial_state(len(frame.last), frame.fresh.shape[1] + self.max_new + LONGEST)
        drawn_by = None if uniform is None else uniform[:, :-1, GUESS]
        (tokens, counts, log_probs), draft = self.draft.propose(
            frame.fresh, mask_unless_full(frame.is_fresh), most, drawn_by, draft
        )
        width = int(counts.max())
        return Proposal(tokens[:, :width], counts, None if log_probs is None else log_probs[:, :width]), draft

    def numbers_for(self, frame: Frame, places: Tensor, width: int) -> Tensor | None:
        """Return the random numbers (rows, 1 + width, 3) of the next positions of each row."""
        if self.numbers is None:
            return None
        ahead = frame.lengths[:, None] + torch.arange(width + 1, device=places.device)
        return self.numbers[places[:, None], ahead.clamp(max=self.max_new - 1)]

    def has_ended(self, tokens: Tensor) -> Tensor:
        if not self.ends:
            return torch.zeros_like(tokens, dtype=torch.bool)
        return (tokens[..., None] == constant(self.ends, tokens.device)).any(-1)

    def count(self, places: Tensor, proposed: Tensor, accepted: Tensor, running: Tensor) -> None:
        for total, more in zip(self.acceptance, (torch.ones_like(proposed), proposed, accepted), strict=True):
            total.index_add_(0, places, more * running)


def _next_sizes(sizes: Tensor, proposed: Tensor, accepted: Tensor) -> Tensor:
    """One more guess after a round that accepted all, one fewer after a round that accepted none."""
    change = (accepted == proposed).long() - (accepted == 0).long()
    return torch.where(proposed > 0, sizes + change, sizes).clamp(1, LONGEST)


class Page:
    """The output of all rows. Rows write different numbers of tokens in a round; a step is shown when all running rows
    have written it."""

    def __init__(self, rows: int, max_new: int, like: Tensor):
        self.tokens = torch.zeros(rows, max_new, dtype=torch.long, device=like.device)
        self.log_probs = like.new_zeros(rows, max_new)
        self.lengths = torch.zeros(rows, dtype=torch.long, device=like.device)
        self.shown = 0

    def write(self, places: Tensor, tokens: Tensor, log_probs: Tensor, counts: Tensor) -> None:
        """Append the first `counts` (rows,) of `tokens` (rows, length) to the rows at `places`."""
        columns = torch.arange(tokens.shape[1], device=tokens.device)
        rows, new = (columns < counts[:, None]).nonzero(as_tuple=True)
        slots = self.lengths[places][rows] + new
        self.tokens[places[rows], slots] = tokens[rows, new]
        self.log_probs[places[rows], slots] = log_probs[rows, new]
        self.lengths.index_add_(0, places, counts)

    def ready(self, places: Tensor, running: Tensor) -> Iterator[Step]:
        """Yield the steps not yet shown that every running row has written, if any; a row that has ended repeats its
        last token."""
        lengths = self.lengths[places][running]
        stop = int(lengths.min() if len(lengths) else self.lengths.max())
        last = self.tokens.gather(1, (self.lengths - 1)[:, None])[:, 0]
        if stop > self.shown:
            columns = slice(self.shown, stop)
            is_new = torch.arange(self.shown, stop, device=last.device) < self.lengths[:, None]
            yield Step(
                torch.where(is_new, self.tokens[:, columns], last[:, None]), self.log_probs[:, columns].clone(), is_new
            )
            self.shown = stop


def _appended(tokens: Tensor, mask: Tensor | None, last: Tensor) -> tuple[Tensor, Tensor]:
    """Append one token to the real tokens of each row; return the rows and their mask."""
    lengths = chunk_lengths(tokens, mask)
    longer = functional.pad(tokens, (0, 1)).scatter(1, lengths[:, None], last[:, None])
    return longer, torch.arange(longer.shape[1], device=tokens.device) <= lengths[:, None]
