"""What several workloads call: a training step, the loss of a task, greedy decoding."""

from collections.abc import Callable

import torch
from torch import Tensor

from clew.bench.timing import Call
from clew.core.types import Term
from clew.decoding.sampling import greedy_sequences
from clew.tasks.language_model import LanguageModel


def train_step(optimiser: torch.optim.Optimizer, loss: Callable[[], Tensor], clip: float | None = None) -> Call:
    parameters = [parameter for group in optimiser.param_groups for parameter in group["params"]]

    def call() -> None:
        found = loss()
        optimiser.zero_grad()
        found.backward()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(parameters, clip)
        optimiser.step()

    return call


def mean_loss(terms: dict[str, Term]) -> Tensor:
    return terms["loss"].sum / terms["loss"].count


def decode_greedily(task: LanguageModel, prompt: Tensor, max_new: int) -> Call:
    return lambda: greedy_sequences(task.stepper(), prompt, max_new=max_new)
