"""The best evaluation so far, and early stopping. The state is in the checkpoint."""

import math
from typing import Any


class Best:
    """The lowest loss so far. After `patience` consecutive evaluations without a lower one, `is_exhausted` is True.
    `evaluated` is the step of the last evaluation."""

    def __init__(self, patience: int | None = None):
        self.patience = patience
        self.value = math.inf
        self.step = 0
        self.worse = 0
        self.evaluated: int | None = 0

    def observe(self, value: float, step: int) -> bool:
        """Record an evaluation, and return whether it is the best so far."""
        self.evaluated = step
        if value < self.value:
            self.value, self.step, self.worse = value, step, 0
            return True
        self.worse += 1
        return False

    @property
    def is_exhausted(self) -> bool:
        return self.patience is not None and self.worse >= self.patience

    def state_dict(self) -> dict[str, Any]:
        value = None if math.isinf(self.value) else self.value
        return {"value": value, "step": self.step, "worse": self.worse, "evaluated": self.evaluated}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.value = math.inf if state["value"] is None else state["value"]
        self.step, self.worse = state["step"], state["worse"]
        self.evaluated = state.get("evaluated")  # older checkpoints do not have it
