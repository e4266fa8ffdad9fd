"""A stepper whose calls are run from tapes, where they are of one shape again and again: the chunks that speculative decoding reads."""

from collections.abc import Hashable

from torch import Tensor

from clew.core.state import leaves
from clew.core.types import State
from clew.decoding.engine import repeating
from clew.decoding.stepper import Stepper, signature_of


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

    def __call__(self, tokens: Tensor, mask: Tensor | None, state: State) -> tuple[Tensor, State]:
        if mask is not None or self.signature is None or tokens.device.type != "cpu" or not leaves(state):
            return self.stepper(tokens, mask, state)
        signature = ("call", self.signature, tuple(tokens.shape))
        with repeating(self.advance, state, steps=1, fed=True, apart=True, signature=signature) as repeated:
            (log_probs,) = repeated.run(1, tokens[None])
            return log_probs[:, 0], repeated.frame

    def advance(self, state: State, tokens: Tensor | None) -> tuple[State, tuple[Tensor]]:
        assert tokens is not None
        log_probs, state = self.stepper(tokens, None, state)
        return state, (log_probs,)
