"""How the learning rate changes: a factor of (step, epoch). Members of SCHEDULES are built as `S(steps, *, options)`,
where `warmup` is a number of steps, or a share of them: a float below 1.

A schedule that reacts to evaluations has `observe(value)`; what it remembers is in `state_dict`, and so in the
checkpoint.
"""

import math
from collections.abc import Callable
from typing import Any

from clew.core.config import warmup_steps
from clew.core.errors import UserError, counted

SHORTENED = 0.1
"""The share of the steps that a warm-up has which was longer than all of them: the learning rate would never reach its
height."""


class Constant:
    """The same throughout, after a linear rise over the warm-up."""

    def __init__(self, steps: int, *, warmup: int | float = 0):
        self.steps = steps
        self.warmup = warmup_steps(warmup, steps)
        self.note = ""
        """What a person should know of it."""
        if self.warmup < 0:
            raise UserError(f"the schedule's warmup ({warmup}) must be at least 0; set training.schedule.warmup")
        if self.warmup > steps:
            self.warmup = int(steps * SHORTENED)
            self.note = (
                f"a warm-up of {counted(int(warmup), 'step')} is longer than a training of {steps:,}, and is shortened"
                f" to {self.warmup:,}: a tenth; set the schedule's warmup for another"
            )

    def factor(self, step: int, epoch: int) -> float:
        """The multiple of the learning rate at a step, counted from 0."""
        rise = min(1.0, (step + 1) / self.warmup) if self.warmup else 1.0
        return rise * self.after_warmup(step, epoch)

    def after_warmup(self, step: int, epoch: int) -> float:
        return 1.0

    def progress(self, step: int) -> float:
        return min(1.0, max(0.0, (step - self.warmup) / max(1, self.steps - self.warmup)))

    def observe(self, value: float) -> None:
        """An evaluation's loss."""

    def state_dict(self) -> dict[str, Any]:
        return {"warmup": self.warmup}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        # A run resumed with more steps keeps its warm-up: a share of them would raise the rate a second time.
        self.warmup = state.get(
            "warmup", self.warmup
        )  # older checkpoints do not say, and their warm-up is a number of steps


class Cosine(Constant):
    """floor + (1 - floor) (1 + cos(pi t)) / 2, t from 0 to 1 over the steps after the warm-up (Loshchilov and Hutter
    2017)."""

    def __init__(self, steps: int, *, warmup: int | float = 0, floor: float = 0.1):
        super().__init__(steps, warmup=warmup)
        self.floor = share("floor", floor)

    def after_warmup(self, step: int, epoch: int) -> float:
        return self.floor + (1 - self.floor) * 0.5 * (1 + math.cos(math.pi * self.progress(step)))


class Linear(Cosine):
    """1 - (1 - floor) t, t from 0 to 1 over the steps after the warm-up."""

    def __init__(self, steps: int, *, warmup: int | float = 0, floor: float = 0.0):
        super().__init__(steps, warmup=warmup, floor=floor)

    def after_warmup(self, step: int, epoch: int) -> float:
        return 1 - (1 - self.floor) * self.progress(step)


class InverseSqrt(Constant):
    """sqrt(warmup / step) after the warm-up (Vaswani et al. 2017, with the learning rate as its peak)."""

    def __init__(self, steps: int, *, warmup: int | float = 1):
        super().__init__(steps, warmup=warmup)
        self.warmup = max(self.warmup, 1)

    def after_warmup(self, step: int, epoch: int) -> float:
        return math.sqrt(self.warmup / max(step + 1, self.warmup))


class ByEpoch(Constant):
    """1 for the first `constant` epochs, then multiplied by `decay` at the start of every epoch (Zaremba et al.
    2014)."""

    def __init__(self, steps: int, *, warmup: int | float = 0, decay: float = 0.5, constant: int = 4):
        super().__init__(steps, warmup=warmup)
        self.decay = share("decay", decay)
        self.constant = constant

    def after_warmup(self, step: int, epoch: int) -> float:
        return self.decay ** max(0, epoch + 1 - self.constant)


class Plateau(Constant):
    """Multiplied by `decay` after `patience` evaluations in a row without a better one."""

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
    """The value itself, where it is a part of the learning rate: below 0 training would climb, above 1 it would grow
    without bound."""
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
