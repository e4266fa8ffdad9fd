"""Learning rate schedules: a factor of the learning rate by (step, epoch). Members of SCHEDULES are built as
`S(steps, *, options)`, where `warmup` is a number of steps, or, as a float below 1, a fraction of all steps.

A schedule that reacts to evaluations overrides `observe(value)`. Its state is in `state_dict`, and so in the
checkpoint.
"""

import math
from collections.abc import Callable
from typing import Any

from clew.core.config import warmup_steps
from clew.core.errors import UserError, counted

SHORTENED = 0.1
"""A warm-up that is longer than the training is shortened to this fraction of the steps: otherwise the learning rate
would never reach its peak."""


class Constant:
    """Constant, after a linear increase over the warm-up."""

    def __init__(self, steps: int, *, warmup: int | float = 0):
        self.steps = steps
        self.warmup = warmup_steps(warmup, steps)
        self.note = ""
        """A note for the report, or an empty string."""
        if self.warmup < 0:
            raise UserError(f"the schedule's warmup ({warmup}) must be at least 0; set training.schedule.warmup")
        if self.warmup > steps:
            self.warmup = int(steps * SHORTENED)
            self.note = (
                f"a warm-up of {counted(int(warmup), 'step')} is longer than a training of {steps:,}, and is shortened"
                f" to {self.warmup:,} (a tenth); set training.schedule.warmup to change this"
            )

    def factor(self, step: int, epoch: int) -> float:
        """Return the factor of the learning rate at a step, counted from 0."""
        rise = min(1.0, (step + 1) / self.warmup) if self.warmup else 1.0
        return rise * self.after_warmup(step, epoch)

    def after_warmup(self, step: int, epoch: int) -> float:
        return 1.0

    def progress(self, step: int) -> float:
        return min(1.0, max(0.0, (step - self.warmup) / max(1, self.steps - self.warmup)))

    def observe(self, value: float) -> None:
        """Receive the loss of an evaluation."""

    def state_dict(self) -> dict[str, Any]:
        return {"warmup": self.warmup}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        # A run that is resumed with more steps keeps its warm-up in steps: a fraction of the new number would increase
        # the rate a second time. Older checkpoints do not have it, and their warm-up is a number of steps.
        self.warmup = state.get("warmup", self.warmup)


class Cosine(Constant):
    """Cosine decay (Loshchilov and Hutter 2017); t goes from 0 to 1 over the steps after the warm-up.

    factor = floor + (1 - floor) (1 + cos(pi t)) / 2
    """

    def __init__(self, steps: int, *, warmup: int | float = 0, floor: float = 0.1):
        super().__init__(steps, warmup=warmup)
        self.floor = share("floor", floor)

    def after_warmup(self, step: int, epoch: int) -> float:
        return self.floor + (1 - self.floor) * 0.5 * (1 + math.cos(math.pi * self.progress(step)))


class Linear(Cosine):
    """Linear decay; t goes from 0 to 1 over the steps after the warm-up.

    factor = 1 - (1 - floor) t
    """

    def __init__(self, steps: int, *, warmup: int | float = 0, floor: float = 0.0):
        super().__init__(steps, warmup=warmup, floor=floor)

    def after_warmup(self, step: int, epoch: int) -> float:
        return 1 - (1 - self.floor) * self.progress(step)


class InverseSqrt(Constant):
    """Inverse square root decay after the warm-up (Vaswani et al. 2017, but the learning rate is the peak).

    factor = sqrt(warmup / step)
    """

    def __init__(self, steps: int, *, warmup: int | float = 1):
        super().__init__(steps, warmup=warmup)
        self.warmup = max(self.warmup, 1)

    def after_warmup(self, step: int, epoch: int) -> float:
        return math.sqrt(self.warmup / max(step + 1, self.warmup))


class ByEpoch(Constant):
    """1 for the first `constant` epochs, then multiplied by `decay` at the start of each epoch (Zaremba et al.
    2014)."""

    def __init__(self, steps: int, *, warmup: int | float = 0, decay: float = 0.5, constant: int = 4):
        super().__init__(steps, warmup=warmup)
        self.decay = share("decay", decay)
        self.constant = constant

    def after_warmup(self, step: int, epoch: int) -> float:
        return self.decay ** max(0, epoch + 1 - self.constant)


class Plateau(Constant):
    """Multiplied by `decay` after `patience` consecutive evaluations without a new lowest loss."""

    def __init__(self, steps: int, *, warmup: int | float = 0, decay: float = 0.5, patience: int = 1):
        super().__init__(steps, warmup=warmup)
        self.decay = share("decay", decay)
        self.patience = patience
        self.best = math.inf
        self.worse = 0
        self.current = 1.0

    def after_warmup(self, step: int, epoch: int) -> float:
        return self.current

    def observe(self, value: float) -> None:
        if value < self.best:
            self.best, self.worse = value, 0
            return
        self.worse += 1
        if self.worse >= self.patience:
            self.current, self.worse = self.current * self.decay, 0

    def state_dict(self) -> dict[str, Any]:
        return {
            **super().state_dict(),
            "best": None if math.isinf(self.best) else self.best,
            "worse": self.worse,
            "current": self.current,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.best = math.inf if state["best"] is None else state["best"]
        self.worse, self.current = state["worse"], state["current"]


def share(name: str, value: float) -> float:
    """Check that a factor of the learning rate is from 0 to 1, and return it. Below 0, training would increase the
    loss; above 1, the learning rate would grow without bound."""
    if not 0 <= value <= 1:
        raise UserError(f"the schedule's {name} ({value}) must be between 0 and 1; set training.schedule.{name}")
    return value


SCHEDULES: dict[str, Callable[..., Constant]] = {
    "constant": Constant,
    "cosine": Cosine,
    "linear": Linear,
    "inverse_sqrt": InverseSqrt,
    "by_epoch": ByEpoch,
    "plateau": Plateau,
}
