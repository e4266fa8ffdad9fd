"""What reacts to an evaluation and is remembered in the checkpoint: the best value so far, and when to give up waiting
for a better one."""

import math
from typing import Any


class Best:
    """The lowest loss so far. `patience` evaluations without a better one make `is_exhausted` true; `evaluated` is the
    last one's step."""

    def __init__(self, patience: int | None = None):
        self.patience = patience
        self.value = math.inf
        self.step = 0
        self.worse = 0
        self.evaluated: int | None = 0

    def observe(self, value: float, step: int) -> bool:
        """Whether this is the best so far."""
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
        self.evaluated = state.get("evaluated")  # older checkpoints do not say
