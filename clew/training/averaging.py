"""Averages of the weights over steps. The averaged weights are evaluated and saved instead of the weights themselves.
Members of AVERAGES are built as `A(task, *, options)`; their state is in the checkpoint."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from clew.core.errors import UserError
from clew.training.parallel import local


class Average:
    """A running average of the trained weights. After each step, once it is `active`:

        mean' = mean + rate * (weights - mean)

    A subclass gives the rate.
    """

    def __init__(self, task: nn.Module):
        self.parameters = {name: p for name, p in task.named_parameters() if p.requires_grad}
        self.means: dict[str, Tensor] = {}
        # Counted on the GPU, because the host does not know yet which steps were skipped.
        on_gpu = any(p.is_cuda for p in self.parameters.values())
        self.updates = torch.zeros((), dtype=torch.float64, device="cuda" if on_gpu else "cpu")

    @property
    def active(self) -> bool:
        return bool(self.means)

    def start(self) -> None:
        self.means = {name: p.detach().clone() for name, p in self.parameters.items()}

    def rate(self) -> Tensor:
        raise NotImplementedError

    def observe(self, value: float) -> None:
        """Receive the loss of an evaluation."""

    @torch.no_grad()
    def update(self, finite: Tensor | None = None) -> None:
        """Update the means after a step of the optimiser; if the tensor `finite` () is False, change nothing."""
        if not self.active:
            return
        self.updates += 1 if finite is None else finite
        rate = self.rate() if finite is None else self.rate() * finite
        means, weights = (
            [local(mean) for mean in self.means.values()],
            [local(self.parameters[name]) for name in self.means],
        )
        if rate.is_cuda:
            changes = torch._foreach_sub(weights, means)
            torch._foreach_mul_(changes, rate.to(changes[0].dtype))
            torch._foreach_add_(means, changes)
        else:
            for mean, weight in zip(means, weights, strict=True):
                mean.lerp_(weight, rate.item())

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Within this context the task has the averaged weights, if there are any."""
        if not self.active:
            yield
            return
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        for name, parameter in self.parameters.items():
            weight, mean = local(parameter), local(self.means[name])
            saved = weight.clone()
            weight.copy_(mean)
            mean.copy_(saved)

    def state_dict(self) -> dict[str, Any]:
        return {"updates": int(self.updates)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.updates.fill_(state["updates"])


class Exponential(Average):
    """Exponential moving average. The decay is smaller in the first steps, so that the initial weights are soon
    forgotten.

        mean' = decay * mean + (1 - decay) * weights
    """

    def __init__(self, task: nn.Module, *, decay: float = 0.999):
        if not 0 <= decay < 1:
            raise UserError(
                f"the decay of a moving average ({decay}) must be at least 0 and below 1; set training.average.decay"
            )
        super().__init__(task)
        self.decay = decay
        self.start()

    def rate(self) -> Tensor:
        return 1 - (self.updates / (9 + self.updates)).clamp(max=self.decay)


class Triggered(Average):
    """Non-monotonically triggered averaged SGD (Merity et al. 2018): the arithmetic mean over all steps since an
    evaluation was worse than the best of those before the last `patience`."""

    def __init__(self, task: nn.Module, *, patience: int = 5):
        if patience < 1:
            raise UserError(
                f"the patience of a triggered average ({patience}) must be at least 1; set training.average.patience"
            )
        super().__init__(task)
        self.patience = patience
        self.values: list[float] = []

    def rate(self) -> Tensor:
        return 1 / self.updates.clamp(min=1)

    def observe(self, value: float) -> None:
        earlier = self.values[: -self.patience]
        if not self.active and earlier and value > min(earlier):
            self.start()
        self.values.append(value)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "values": [value if math.isfinite(value) else None for value in self.values]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.values = [math.inf if value is None else value for value in state["values"]]


AVERAGES: dict[str, Callable[..., Average]] = {"ema": Exponential, "triggered": Triggered}
