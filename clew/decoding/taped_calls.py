"""A stepper whose calls are run from tapes, where they are of one shape again and again: the chunks that speculative decoding reads."""

from collections.abc import Hashable
from functools import partial

import torch
from torch import Tensor

from clew.core.state import leaves
from clew.core.types import State
from clew.decoding.engine import repeating
from clew.decoding.stepper import Stepper, read_at, signature_of
from clew.kernels.step_mode import reading_mode


class TapedCalls:
    """The same as the stepper inside. A call with a mask is run as it was written."""

    def __init__(self, stepper: Stepper):
        self.stepper = stepper
        self.signature: Hashable = signature_of(stepper)

    @property
    def vocabulary(self) -> int:
        return self.stepper.vocabulary

    def initial_state(self, rows: int, capacity: int | None = None) -> State:
        return self.stepper.initial_state(rows, capacity)

    def __call__(self, tokens: Tensor, mask: Tensor | None, state: State, at: Tensor | None = None) -> tuple[Tensor, State]:
        if mask is not None or self.signature is None or tokens.device.type != "cpu" or not leaves(state):
            with reading_mode(tokens.device):
                return read_at(self.stepper, tokens, mask, state, at)
        length = tokens.shape[1]
        fed = tokens if at is None else torch.cat([tokens, at], 1)
        signature = ("call", self.signature, length, tuple(fed.shape))
        with repeating(partial(self.advance, length), state, steps=1, fed=True, apart=True, signature=signature) as repeated:
            (log_probs,) = repeated.run(1, fed[None])
            return log_probs[:, 0], repeated.frame

    def advance(self, length: int, state: State, fed: Tensor | None) -> tuple[State, tuple[Tensor]]:
        """`fed` (rows, length + places) are the tokens, and behind them the positions that are wanted, if not all are."""
        assert fed is not None
        tokens, at = (fed, None) if fed.shape[1] == length else (fed[:, :length], fed[:, length:])
        log_probs, state = read_at(self.stepper, tokens, None, state, at)
        return state, (log_probs,)
