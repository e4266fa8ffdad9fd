"""Calls that workloads share: a hand-written training step, a step of clew's training loop, and greedy decoding."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from clew.bench.timing import Call
from clew.core.batches import Batches
from clew.core.types import State
from clew.decoding.sampling import greedy_sequences
from clew.decoding.stepper import Stepper
from clew.tasks.language_model import LanguageModel
from clew.training.backward import StepOptions
from clew.training.loader import Loader
from clew.training.loop import train
from clew.training.records import Progress
from clew.training.schedules import Constant

MANY = 10**9


def train_step(optimiser: torch.optim.Optimizer, loss: Callable[[], Tensor], clip: float | None = None) -> Call:
    parameters = [parameter for group in optimiser.param_groups for parameter in group["params"]]

    def call() -> None:
        value = loss()
        optimiser.zero_grad()
        value.backward()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(parameters, clip)
        optimiser.step()

    return call


def loop_step(
    task: nn.Module,
    batch: Any,
    optimiser: torch.optim.Optimizer,
    *,
    clip: float | None = None,
    carry: bool = False,
    autocast: Callable[[], AbstractContextManager[Any]] = nullcontext,
    counts: Callable[[Any], dict[str, Tensor]] | None = None,
    capture: bool = True,
) -> Call:
    """Return a step of clew's training loop on a batch in host memory, including the copy to the device and the
    gradient's norm."""
    device = next(task.parameters()).device
    batches = Loader(Batches(lambda epoch: MANY, lambda epoch, number: batch), 0, pin=device.type == "cuda")
    steps = train(
        task,
        batches,
        optimiser,
        Constant(MANY),
        StepOptions(seed=1, clip_norm=clip, carry=carry, autocast=autocast, counts=counts, capture=capture),
        steps=MANY,
        progress=Progress(),
    )
    return lambda: next(steps)


def decode_greedily(task: LanguageModel, prompt: Tensor, max_new: int) -> Call:
    return lambda: greedy_sequences(task.stepper(), prompt, max_new=max_new)


class WithoutSignature:
    """A stepper without a signature, so every step runs eagerly (see `decoding.engine`)."""

    def __init__(self, stepper: Stepper):
        self.stepper = stepper

    @property
    def vocabulary(self) -> int:
        return self.stepper.vocabulary

    def initial_state(self, rows: int, capacity: int | None = None) -> State:
        return self.stepper.initial_state(rows, capacity)

    def __call__(self, tokens: Tensor, mask: Tensor | None, state: State) -> tuple[Tensor, State]:
        return self.stepper(tokens, mask, state)


def decode_eagerly(task: LanguageModel, prompt: Tensor, max_new: int) -> Call:
    return lambda: greedy_sequences(WithoutSignature(task.stepper()), prompt, max_new=max_new)
