"""A stepper that runs repeated calls of one shape from tapes, such as the chunks that speculative decoding reads."""

import weakref
from collections.abc import Hashable
from contextlib import ExitStack
from functools import partial

import torch
from torch import Tensor

from clew.core.state import leaves
from clew.core.types import State
from clew.decoding.engine import modes, repeating, shapes_of
from clew.decoding.repeated import Repeated
from clew.decoding.stepper import Stepper, read_at, signature_of
from clew.decoding.taped import Taped
from clew.kernels.step_mode import reading_mode

MOST_HELD = 24
"""The most tapes that one object holds for itself."""


class TapedCalls:
    """Equal to the stepper inside. Calls with a mask run eagerly.

    From `initial_state` on, it holds the tapes that it has taken, one for each length: looking them up again, and
    checking that the model has not changed, would take as long as a small model's step.
    """

    def __init__(self, stepper: Stepper):
        self.stepper = stepper
        self.signature: Hashable = signature_of(stepper)
        self.stacks: dict[Hashable, ExitStack] = {}
        self.tapes: dict[Hashable, Taped] = {}
        weakref.finalize(self, release_all, self.stacks)

    @property
    def vocabulary(self) -> int:
        return self.stepper.vocabulary

    def initial_state(self, rows: int, capacity: int | None = None) -> State:
        release_all(self.stacks)  # a new text: the model may have changed since the last one
        self.tapes.clear()
        return self.stepper.initial_state(rows, capacity)

    def __call__(
        self, tokens: Tensor, mask: Tensor | None, state: State, at: Tensor | None = None
    ) -> tuple[Tensor, State]:
        if mask is not None or self.signature is None or tokens.device.type != "cpu" or not leaves(state):
            with reading_mode(tokens.device):
                return read_at(self.stepper, tokens, mask, state, at)
        length = tokens.shape[1]
        fed = tokens if at is None else torch.cat([tokens, at], 1)
        signature = ("call", self.signature, length, tuple(fed.shape))
        advance = partial(read_chunk, self.stepper, length)  # not a method: a held tape must not keep this object alive
        key = (signature, shapes_of(state), modes())
        if (tape := self.tapes.get(key)) is not None:
            tape.restart(advance, state)
            return self.run(tape, fed)
        stack = ExitStack()
        repeated = stack.enter_context(repeating(advance, state, steps=1, fed=True, apart=True, signature=signature))
        if isinstance(repeated, Taped) and len(self.stacks) < MOST_HELD:
            self.stacks[key], self.tapes[key] = stack, repeated
            return self.run(repeated, fed)
        with stack:
            return self.run(repeated, fed)

    def run(self, repeated: Repeated, fed: Tensor) -> tuple[Tensor, State]:
        try:
            (log_probs,) = repeated.run(1, fed[None])
            return log_probs[:, 0], repeated.frame
        finally:
            if isinstance(repeated, Taped):
                repeated.release()  # so that a held tape keeps no state alive


def read_chunk(stepper: Stepper, length: int, state: State, fed: Tensor | None) -> tuple[State, tuple[Tensor]]:
    """Read a chunk; `fed` (rows, length + places) holds the tokens, followed by the positions to score unless all are
    scored."""
    assert fed is not None
    tokens, at = (fed, None) if fed.shape[1] == length else (fed[:, :length], fed[:, length:])
    log_probs, state = read_at(stepper, tokens, None, state, at)
    return state, (log_probs,)


def release_all(stacks: dict[Hashable, ExitStack]) -> None:
    while stacks:
        stacks.popitem()[1].close()
