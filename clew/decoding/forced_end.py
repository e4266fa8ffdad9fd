"""A stepper that forces an end token at the length limit."""

import math
from collections.abc import Hashable
from typing import NamedTuple

import torch
from torch import Tensor

from clew.core.errors import UserError
from clew.core.types import State
from clew.decoding.ends import End, constant, end_tokens
from clew.decoding.stepper import Stepper, calm_steps, picked, read_at, signature_of


class ForcedState(NamedTuple):
    inner: State
    left: Tensor  # (rows,) tokens that may still be read before the end is forced


class ForcedEnd:
    """p'(end) = 1 for the `max_new`th token of a row, p(w) before it.

    The forced end has log-probability 0, so that hypotheses at the limit compete by the tokens before it. `prompt` is
    the number of tokens that a row reads before it writes; `max_new` and `prompt` may differ per row (rows,).
    """

    def __init__(self, stepper: Stepper, *, end: End, max_new: int | Tensor, prompt: int | Tensor):
        ends = end_tokens(end, stepper.vocabulary)
        if not ends:
            raise UserError(
                "forced_end needs an end token, and there is none here; set decoding.stop, or decoding.forced_end=false"
            )
        self.stepper = stepper
        self.ends = ends
        self.most = torch.as_tensor(max_new).cpu() + torch.as_tensor(prompt).cpu() - 1

    @property
    def vocabulary(self) -> int:
        return self.stepper.vocabulary

    @property
    def signature(self) -> Hashable:
        inner = signature_of(self.stepper)  # the number of tokens left is in the state
        return None if inner is None else (type(self), self.ends, inner)

    def initial_state(self, rows: int, capacity: int | None = None) -> ForcedState:
        return ForcedState(self.stepper.initial_state(rows, capacity), self.most.expand(rows).clone())

    def calm_steps(self, state: ForcedState) -> int:
        return calm_steps(self.stepper, state.inner)

    def __call__(
        self, tokens: Tensor, mask: Tensor | None, state: ForcedState, at: Tensor | None = None
    ) -> tuple[Tensor, ForcedState]:
        log_probs, inner = read_at(self.stepper, tokens, mask, state.inner, at)
        left = state.left.to(tokens.device)
        read = torch.arange(1, tokens.shape[1] + 1, device=tokens.device)
        is_due = picked(left[:, None] <= read, at)  # (rows, places)
        only_end = torch.full_like(log_probs[0, 0], -math.inf).index_fill(0, constant(self.ends, tokens.device), 0.0)
        after = left - (tokens.shape[1] if mask is None else mask.sum(1))
        return torch.where(is_due[..., None], only_end, log_probs), ForcedState(inner, after)
