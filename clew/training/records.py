"""The record of a training step, and the progress of training. The numbers of a step stay on the device until they
are read."""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from clew.core.errors import UserError
from clew.core.types import State

MOST_SKIPPED = 10
"""A run fails after this number of consecutive steps without a finite gradient. It is also the largest number of steps
by which the host runs ahead of a GPU."""


class HostCopy:
    """Numbers that are being copied to the host. On CUDA the copy is asynchronous, and `read` waits for this copy only,
    not for later steps."""

    def __init__(self, values: Tensor):
        self.values = values.to("cpu", non_blocking=True) if values.is_cuda else values
        self.arrival = torch.cuda.current_stream(values.device).record_event() if values.is_cuda else None

    def read(self) -> list[float]:
        if self.arrival is not None:
            self.arrival.synchronize()
        numbers: list[float] = self.values.tolist()
        return numbers

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HostCopy) and self.read() == other.read()

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Record:
    """The result of one training step. `losses` are means over each term's count; a skipped step left the weights
    unchanged.

    `counts` are the terms' counts. `count` is the number of tokens in the step: the batch's `num_tokens`, or else the
    first term's count. `parts` is the number of micro-batches into which each process split its rows. `stop` is True if
    any process was asked to stop. Only reading `losses`, `gradient_norm` or `skipped` waits for the end of the step.
    """

    step: int
    epoch: int
    learning_rate: float
    count: int
    counts: dict[str, float]
    values: HostCopy = field(repr=False)
    """The sum of every term, in the order of `counts`, and the gradient's norm."""
    parts: int = 1
    stop: bool = False

    @cached_property
    def numbers(self) -> list[float]:
        return self.values.read()

    @property
    def is_read(self) -> bool:
        """Whether the step's numbers have been read, so that reading them again is free."""
        return "numbers" in self.__dict__

    @property
    def losses(self) -> dict[str, float]:
        return {name: total / count for (name, count), total in zip(self.counts.items(), self.numbers, strict=False)}

    @property
    def loss(self) -> float:
        return sum(self.losses.values())

    @property
    def gradient_norm(self) -> float:
        return self.numbers[-1]

    @property
    def skipped(self) -> bool:
        return not all(map(math.isfinite, self.numbers))


@dataclass
class Progress:
    """The progress of training: everything that resuming needs besides weights, optimiser, schedule and averages.

    `place` is the position at which to continue reading a stream. `state` is the carried state of this process's rows.
    `unseen` are the steps whose numbers the host has not read yet, and `skipped` is the number of consecutive skipped
    steps before them. `halvings` is the number of times that micro-batches were halved to fit into memory. `seconds` is
    the training time and `tokens` the number of tokens read; the caller updates both.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    place: Any = None
    state: State = None
    skipped: int = 0
    halvings: int = 0
    seconds: float = 0.0
    tokens: int = 0
    unseen: list[Record] = field(default_factory=list)

    def look(self, leave: int = 0) -> None:
        """Read all unseen steps except the newest `leave`; raise if `MOST_SKIPPED` in a row were skipped."""
        while len(self.unseen) > leave:
            record = self.unseen.pop(0)
            self.skipped = self.skipped + 1 if record.skipped else 0
            if self.skipped >= MOST_SKIPPED:
                raise UserError(
                    f"{MOST_SKIPPED} steps in a row had no finite gradient (step {record.step}: loss {record.loss}, "
                    f"gradient norm {record.gradient_norm}); lower training.learning_rate or set training.clip_norm"
                )
