"""Ensembles: a stepper that averages several steppers."""

from collections.abc import Hashable, Sequence

import torch
from torch import Tensor

from clew.core.errors import UserError
from clew.core.types import State
from clew.decoding.stepper import Stepper, calm_steps, read_at, signature_of


class Ensemble:
    """log p(w) = mean over models of log p_m(w), the geometric mean of their probabilities. The state is a tuple of the
    models' states."""

    def __init__(self, steppers: Sequence[Stepper]):
        sizes = [stepper.vocabulary for stepper in steppers]
        if not sizes or len(set(sizes)) > 1:
            raise UserError(
                f"an ensemble needs models with one vocabulary; these have {', '.join(map(str, sizes)) or 'no'} tokens"
            )
        self.steppers = list(steppers)

    @property
    def vocabulary(self) -> int:
        return self.steppers[0].vocabulary

    @property
    def signature(self) -> Hashable:
        return signature_of(*self.steppers)

    def initial_state(self, rows: int, capacity: int | None = None) -> State:
        return tuple(stepper.initial_state(rows, capacity) for stepper in self.steppers)

    def calm_steps(self, state: State) -> int:
        return min(calm_steps(*each) for each in zip(self.steppers, state, strict=True))

    def __call__(
        self, tokens: Tensor, mask: Tensor | None, state: State, at: Tensor | None = None
    ) -> tuple[Tensor, State]:
        outputs = [read_at(stepper, tokens, mask, own, at) for stepper, own in zip(self.steppers, state, strict=True)]
        return torch.stack([log_probs for log_probs, _ in outputs]).mean(0), tuple(own for _, own in outputs)
