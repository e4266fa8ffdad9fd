"""Options of token choice per row, as tensors, so that one step serves rows with different options. Knows no model.

    p'(w) = top_p(top_k(p(w)^(1 / temperature) / Z)),   y = argmax_w p'(w), or drawn from p'

the same as nested `filters`, with a banned token, a temperature, a k and a p for each row.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from clew.core.errors import UserError
from clew.decoding.filters import renormalise
from clew.decoding.sampling import choose_token, most_probable


class Choice(NamedTuple):
    """How one row chooses its tokens. `banned` is a token that it never writes; `alternatives` is how many of the most
    probable tokens are reported beside each chosen one."""

    is_greedy: bool = False
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    banned: int | None = None
    alternatives: int = 0


class Kinds(NamedTuple):
    """The operations that at least one row of a step needs."""

    draws: bool = False
    tempers: bool = False
    cuts: bool = False
    bans: bool = False
    alternatives: int = 0

    def __or__(self, other: "Kinds") -> "Kinds":
        """Union of two sets of operations."""
        return Kinds(*(max(pair) for pair in zip(self, other, strict=True)))  # type: ignore[arg-type]


class Choices(NamedTuple):
    """The choices of all rows; each (rows,)."""

    is_greedy: Tensor
    temperature: Tensor
    top_k: Tensor
    rest: Tensor
    """The most probability mass that top-p may leave out; -1 without top-p."""
    banned: Tensor
    """-1 where no token is banned."""


MOST_ALTERNATIVES = 20
PLAIN = Choice(is_greedy=True)
"""The choice of a slot without a row."""


def check_choice(choice: Choice) -> None:
    if not 0 < choice.temperature < math.inf:
        raise UserError(
            f"temperature ({choice.temperature}) must be above 0 and finite; use greedy decoding for the limit 0"
        )
    if choice.top_k is not None and choice.top_k < 1:
        raise UserError(f"top_k ({choice.top_k}) must be a whole number of at least 1")
    if choice.top_p is not None and not 0 < choice.top_p <= 1:
        raise UserError(f"top_p ({choice.top_p}) must be above 0 and at most 1")
    if not 0 <= choice.alternatives <= MOST_ALTERNATIVES:
        raise UserError(f"alternatives ({choice.alternatives}) must be at least 0 and at most {MOST_ALTERNATIVES}")


def choice_kinds(choice: Choice) -> Kinds:
    cuts = choice.top_k is not None or choice.top_p is not None
    # Every row with alternatives computes the same number of them, so that few different steps are captured.
    return Kinds(
        not choice.is_greedy,
        choice.temperature != 1,
        cuts,
        choice.banned is not None,
        MOST_ALTERNATIVES if choice.alternatives else 0,
    )


def stack_choices(rows: Sequence[Choice], device: torch.device) -> Choices:
    # The tolerance is that of `filters.Nucleus`.
    rest = [-1.0 if row.top_p is None else (1 - row.top_p) * (1 + 1e-5) for row in rows]
    banned = [-1 if row.banned is None else row.banned for row in rows]
    largest_k = [2**31 if row.top_k is None else row.top_k for row in rows]
    columns = ([row.is_greedy for row in rows], [row.temperature for row in rows], largest_k, rest, banned)
    return Choices(*(torch.tensor(column, device=device) for column in columns))


def shaped(log_probs: Tensor, choices: Choices, kinds: Kinds) -> Tensor:
    """Return log p' (rows, vocabulary)."""
    if kinds.bans:
        tokens = torch.arange(log_probs.shape[-1], device=log_probs.device)
        log_probs = log_probs.masked_fill(tokens == choices.banned[:, None], -math.inf)
    if kinds.tempers:
        peak = log_probs.amax(-1, keepdim=True).clamp(min=torch.finfo(log_probs.dtype).min)
        tiny = torch.finfo(log_probs.dtype).tiny  # a smaller temperature would be rounded to 0
        temperature = choices.temperature[:, None].to(log_probs.dtype).clamp(min=tiny)
        log_probs = torch.where(temperature == 1, log_probs, renormalise((log_probs - peak) / temperature))
    if kinds.cuts:
        log_probs = cut_tail(log_probs, choices)
    return log_probs


def cut_tail(log_probs: Tensor, choices: Choices) -> Tensor:
    """Apply top-k, then top-p, with one sort."""
    vocabulary = log_probs.shape[-1]
    ascending, order = log_probs.sort(-1)
    places = torch.arange(vocabulary - 1, -1, -1, device=log_probs.device)  # 0 is the most probable token
    has_k, has_p = choices.top_k[:, None] < vocabulary, choices.rest[:, None] >= 0
    after_k = torch.where(
        has_k, renormalise(ascending.masked_fill(places >= choices.top_k[:, None], -math.inf)), ascending
    )
    after_k_normalised = renormalise(after_k)
    outside = after_k_normalised.exp().cumsum(-1) <= choices.rest[:, None].to(log_probs.dtype)
    outside[..., -1] = False
    kept = torch.where(has_p, renormalise(after_k_normalised.masked_fill(outside, -math.inf)), after_k)
    return torch.where(has_k | has_p, torch.zeros_like(log_probs).scatter(-1, order, kept), log_probs)


def choose_tokens(log_probs: Tensor, choices: Choices, kinds: Kinds, uniform: Tensor | None) -> Tensor:
    """Choose the next token of every row (rows,) from log p'."""
    if not kinds.draws or uniform is None:
        return most_probable(log_probs)
    return torch.where(choices.is_greedy, most_probable(log_probs), choose_token(log_probs, uniform))
