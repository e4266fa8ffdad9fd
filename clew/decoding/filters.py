"""Filters: steppers around steppers that change the distribution of the next token. They stack in any order.

There are two kinds. Temperature, TopK and Nucleus reshape a distribution: their output adds up to one. Banned,
RepetitionPenalty and NoRepeatNgram are constraints: they lower log-probabilities and do not redistribute the lost mass,
so that in beam search a hypothesis pays for the tokens it was refused; sampling renormalises. Each position of a chunk
is filtered by what the row had read up to it, so that reading a chunk equals reading its tokens one by one.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from clew.core.errors import UserError
from clew.core.types import State, Tree
from clew.core.wording import argument_name
from clew.decoding.ends import constant
from clew.decoding.history import History, empty_history
from clew.decoding.stepper import Stepper, calm_steps, picked, read_at, signature_of


def signature_with(around: Any, stepper: Stepper) -> Hashable:
    """Return the signature of a filter: its type, its numbers, and the signature of the stepper inside; None if that
    has none."""
    inner = signature_of(stepper)
    numbers = tuple(sorted((name, value) for name, value in vars(around).items() if name != "stepper"))
    return None if inner is None else (type(around), numbers, inner)


class Filter:
    """A stepper whose log_probs are a function of those of another stepper at the same position. It has no state of its
    own."""

    def __init__(self, stepper: Stepper):
        self.stepper = stepper

    @property
    def vocabulary(self) -> int:
        return self.stepper.vocabulary

    @property
    def signature(self) -> Hashable:
        return signature_with(self, self.stepper)

    @property
    def starts_from(self) -> Tree:
        return getattr(self.stepper, "starts_from", None)

    def initial_state(self, rows: int, capacity: int | None = None, starts_from: Tree = None) -> State:
        if starts_from is None:
            return self.stepper.initial_state(rows, capacity)
        starting: Any = self.stepper
        return starting.initial_state(rows, capacity, starts_from)

    def calm_steps(self, state: State) -> int:
        return calm_steps(self.stepper, state)

    def __call__(
        self, tokens: Tensor, mask: Tensor | None, state: State, at: Tensor | None = None
    ) -> tuple[Tensor, State]:
        log_probs, state = read_at(self.stepper, tokens, mask, state, at)
        return self.filtered(log_probs), state

    def filtered(self, log_probs: Tensor) -> Tensor:
        raise NotImplementedError


class FilterState(NamedTuple):
    inner: State
    history: History


class HistoryFilter:
    """A stepper whose log_probs are a function of those of another stepper and of all tokens that the row has read,
    prompt included."""

    def __init__(self, stepper: Stepper):
        self.stepper = stepper

    @property
    def vocabulary(self) -> int:
        return self.stepper.vocabulary

    @property
    def signature(self) -> Hashable:
        return signature_with(self, self.stepper)

    def initial_state(self, rows: int, capacity: int | None = None) -> FilterState:
        return FilterState(self.stepper.initial_state(rows, capacity), empty_history(rows, capacity))

    def calm_steps(self, state: FilterState) -> int:
        return calm_steps(self.stepper, state.inner)

    def __call__(
        self, tokens: Tensor, mask: Tensor | None, state: FilterState, at: Tensor | None = None
    ) -> tuple[Tensor, FilterState]:
        log_probs, inner = read_at(self.stepper, tokens, mask, state.inner, at)
        history, slots = state.history.extend(tokens, mask)
        return self.filtered(log_probs, history.tokens, picked(slots, at)), FilterState(inner, history)

    def filtered(self, log_probs: Tensor, read: Tensor, slots: Tensor) -> Tensor:
        """Filter log_probs (rows, places, vocabulary).

        `read` (rows, history) are the tokens read, this chunk included; a position in `slots` (rows, places) sees those
        up to its own slot.
        """
        raise NotImplementedError


class Temperature(Filter):
    """p'(w) = p(w)^(1 / temperature) / sum_v p(v)^(1 / temperature): sharper below 1, flatter above 1."""

    def __init__(self, stepper: Stepper, *, temperature: float):
        super().__init__(stepper)
        if not 0 < temperature < math.inf:
            raise UserError(
                f"temperature ({temperature}) must be above 0 and finite; use greedy decoding for the limit 0"
            )
        self.temperature = temperature

    def filtered(self, log_probs: Tensor) -> Tensor:
        peak = log_probs.amax(-1, keepdim=True).clamp(min=torch.finfo(log_probs.dtype).min)
        # Without subtracting the peak, a temperature near 0 would send every token to -inf.
        return renormalise((log_probs - peak) / self.temperature)


class TopK(Filter):
    """p'(w) = p(w) / Z for the k most probable tokens, else 0 (Fan et al. 2018). Exactly k: ties at the edge are cut
    arbitrarily."""

    def __init__(self, stepper: Stepper, *, k: int):
        super().__init__(stepper)
        _check_count("top_k", k)
        self.k = k

    def filtered(self, log_probs: Tensor) -> Tensor:
        kept = log_probs.topk(min(self.k, log_probs.shape[-1]), -1)
        return renormalise(torch.full_like(log_probs, -math.inf).scatter(-1, kept.indices, kept.values))


class Nucleus(Filter):
    """p'(w) = p(w) / Z in the smallest set of most probable tokens whose mass reaches p, else 0 (Holtzman et al. 2020).

    The set has at least one token. It is the complement of all tokens whose mass, together with that of the less
    probable ones, is at most 1 - p: summing from the smallest on is exact enough that p = 1 keeps everything.
    """

    def __init__(self, stepper: Stepper, *, p: float):
        super().__init__(stepper)
        if not 0 < p <= 1:
            raise UserError(f"top_p ({p}) must be above 0 and at most 1")
        self.p = p

    def filtered(self, log_probs: Tensor) -> Tensor:
        log_probs = renormalise(log_probs)
        ascending, order = log_probs.sort(-1)
        # The tolerance lets .5 + .3 reach .8 in spite of rounding.
        outside = ascending.exp().cumsum(-1) <= (1 - self.p) * (1 + 1e-5)
        outside[..., -1] = False
        return renormalise(log_probs.masked_fill(torch.zeros_like(outside).scatter(-1, order, outside), -math.inf))


class Banned(Filter):
    """p'(w) = 0 for banned tokens, such as padding and unknown, and p(w) for the others."""

    def __init__(self, stepper: Stepper, *, tokens: Sequence[int]):
        super().__init__(stepper)
        self.tokens = tuple(sorted(set(tokens)))
        for token in self.tokens:
            if not 0 <= token < stepper.vocabulary:
                raise UserError(
                    f"banned token ({token}) must be at least 0 and below vocabulary ({stepper.vocabulary})"
                )
        if len(self.tokens) == stepper.vocabulary:
            raise UserError(f"all {stepper.vocabulary} tokens of the vocabulary are banned; leave at least one")

    def filtered(self, log_probs: Tensor) -> Tensor:
        return log_probs.index_fill(-1, constant(self.tokens, log_probs.device), -math.inf)


class RepetitionPenalty(HistoryFilter):
    """log p'(w) = penalty * log p(w) for tokens that the row has read, so p'(w) = p(w)^penalty; other tokens are
    unchanged.

    Keskar et al. (2019) divide the *logit* of such a token by the penalty. But logits have no natural zero: dividing a
    negative one makes the token more probable, and adding a constant to all logits changes the result.
    Log-probabilities are never above 0, so multiplying always lowers them, and an almost certain token stays almost
    certain.
    """

    def __init__(self, stepper: Stepper, *, penalty: float):
        super().__init__(stepper)
        if not 0 < penalty < math.inf:
            raise UserError(
                f"repetition_penalty ({penalty}) must be above 0 and finite; 1 is no penalty, above 1 repeats less"
            )
        self.penalty = penalty

    def filtered(self, log_probs: Tensor, read: Tensor, slots: Tensor) -> Tensor:
        rows, history = read.shape
        columns = torch.arange(history, device=read.device).expand(rows, -1)
        # The last column takes absent slots.
        never = torch.full((rows, self.vocabulary + 1), history, device=read.device)
        # (rows, vocabulary)
        first = never.scatter_reduce(1, torch.where(read < 0, self.vocabulary, read), columns, "amin")[:, :-1]
        was_read = first[:, None, :] <= slots[:, :, None]  # (rows, length, vocabulary)
        return torch.where(was_read, log_probs * self.penalty, log_probs)


class NoRepeatNgram(HistoryFilter):
    """p'(w) = 0 if w would complete an n-gram that the row has read before (Paulus et al. 2018).

    If that would leave no token, none is refused.
    """

    def __init__(self, stepper: Stepper, *, n: int):
        super().__init__(stepper)
        _check_count("no_repeat_ngram", n)
        self.n = n

    def filtered(self, log_probs: Tensor, read: Tensor, slots: Tensor) -> Tensor:
        if read.shape[1] < self.n:
            return log_probs
        grams = read.unfold(1, self.n, 1)  # (rows, grams, n)
        contexts, followers = grams[..., :-1], grams[..., -1]
        suffixes = slots[..., None] + torch.arange(2 - self.n, 1, device=slots.device)  # (rows, length, n - 1)
        ends = read.gather(1, suffixes.clamp(min=0).flatten(1)).view_as(suffixes)
        same = torch.ones(*slots.shape, grams.shape[1], dtype=torch.bool, device=slots.device)  # (rows, length, grams)
        for i in range(self.n - 1):
            same = same & (contexts[:, None, :, i] == ends[:, :, None, i])
        # A gram counts once its last token is read. This also excludes rows with fewer than n tokens, where `suffixes`
        # was clamped.
        complete = torch.arange(self.n - 1, read.shape[1], device=slots.device) <= slots[..., None]
        repeats = same & complete & (followers >= 0)[:, None]
        left = log_probs.masked_fill(_members(followers, repeats, self.vocabulary), -math.inf)
        return torch.where((left > -math.inf).any(-1, keepdim=True), left, log_probs)


def with_filters(
    stepper: Stepper,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    repetition_penalty: float = 1.0,
    no_repeat_ngram: int | None = None,
    banned: Sequence[int] = (),
) -> Stepper:
    """Wrap a stepper in the filters whose options are not neutral, innermost first:

        banned, repetition penalty, no repeated n-gram, temperature, top-k, top-p

    Constraints come before the temperature, which rescales what they leave. Top-k cuts before top-p counts mass.
    """
    if len(banned):
        stepper = Banned(stepper, tokens=banned)
    if repetition_penalty != 1.0:
        stepper = RepetitionPenalty(stepper, penalty=repetition_penalty)
    if no_repeat_ngram is not None:
        stepper = NoRepeatNgram(stepper, n=no_repeat_ngram)
    if temperature != 1.0:
        stepper = Temperature(stepper, temperature=temperature)
    if top_k is not None:
        stepper = TopK(stepper, k=top_k)
    if top_p is not None:
        stepper = Nucleus(stepper, p=top_p)
    return stepper


def renormalise(log_probs: Tensor) -> Tensor:
    """Normalise log_probs. A position with no token left stays -inf throughout, where log_softmax would give NaN."""
    total = log_probs.logsumexp(-1, keepdim=True)
    return log_probs - total.masked_fill(total == -math.inf, 0.0)


def _members(tokens: Tensor, chosen: Tensor, vocabulary: int) -> Tensor:
    """True (rows, length, vocabulary) at the `tokens` (rows, grams) that `chosen` (rows, length, grams) selects for
    each position."""
    index = torch.where(chosen, tokens[:, None], vocabulary)  # the extra column takes tokens that are not chosen
    members = torch.zeros(*chosen.shape[:2], vocabulary + 1, dtype=torch.bool, device=tokens.device)
    return members.scatter(2, index, True)[..., :-1]


def _check_count(name: str, value: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UserError(f"{argument_name(name)} ({value}) must be a whole number of at least 1")


FILTERS: dict[str, Callable[..., Stepper]] = {
    "banned": Banned,
    "repetition_penalty": RepetitionPenalty,
    "no_repeat_ngram": NoRepeatNgram,
    "temperature": Temperature,
    "top_k": TopK,
    "top_p": Nucleus,
}
