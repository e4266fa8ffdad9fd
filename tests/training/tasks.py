"""Small tasks that follow the Task contract and can be computed by hand."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from clew.core.batches import Batches
from clew.core.types import State, Term


class Rows(NamedTuple):
    x: Tensor  # (batch, dim)
    fresh: bool = True


class TwoTerms(nn.Module):
    """Two losses over the same rows with different weights and counts: rows, and positive entries."""

    def __init__(self, dim: int = 4):
        super().__init__()
        torch.manual_seed(0)
        self.weight = nn.Parameter(torch.randn(dim, 3, dtype=torch.float64))
        self.bias = nn.Parameter(torch.zeros(3, dtype=torch.float64))

    def forward(self, batch: Rows, state: State = None) -> tuple[dict[str, Term], State]:
        y = torch.tanh(batch.x @ self.weight + self.bias)
        counts = self.counts(batch)
        positive = (y.sum(1, keepdim=True) * batch.x.clamp(min=0)).pow(2)
        return {
            "rows": Term(y.pow(2).sum(), counts["rows"], 1.0),
            "positive": Term(positive.sum(), counts["positive"], 0.3),
        }, None

    def counts(self, batch: Rows) -> dict[str, Tensor]:
        return {"rows": torch.tensor(len(batch.x)), "positive": (batch.x > 0).sum()}


class Adder(nn.Module):
    """A simple recurrence: s_t = s_{t-1} + w * x_t, loss = s_t. `carried_in` collects the states it receives."""

    def __init__(self, weight: float = 1.0):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(weight, dtype=torch.float64))
        self.carried_in: list[Tensor | None] = []

    def forward(self, batch: Rows, state: State = None) -> tuple[dict[str, Term], State]:
        self.carried_in.append(state)
        before = torch.zeros(len(batch.x), dtype=torch.float64) if state is None else state
        after = before + self.weight * batch.x[:, 0]
        return {"loss": Term(after.sum(), self.counts(batch)["loss"])}, after

    def counts(self, batch: Rows) -> dict[str, Tensor]:
        return {"loss": torch.tensor(len(batch.x))}


class Noisy(nn.Module):
    """A task whose loss is a dropout of ones, so that the record of a step shows the random mask."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(200, dtype=torch.float64))

    def forward(self, batch: Rows, state: State = None) -> tuple[dict[str, Term], State]:
        drawn = nn.functional.dropout(self.weight * batch.x.sum(), 0.5, self.training)
        return {"loss": Term((drawn * torch.arange(200)).sum(), self.counts(batch)["loss"])}, None

    def counts(self, batch: Rows) -> dict[str, Tensor]:
        return {"loss": torch.tensor(1)}


def each(*batches: Rows) -> Batches:
    """An epoch of these batches."""
    return Batches(lambda epoch: len(batches), lambda epoch, number: batches[number])
