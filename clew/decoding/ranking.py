"""What hypotheses of unequal length compete by: log p beside their length, and how much of a source they have looked at."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from clew.core.errors import UserError, unknown
from clew.core.types import State

LengthForm = Literal["power", "gnmt"]
FORMS = ("power", "gnmt")
LEAST = torch.finfo(torch.float32).tiny
"""A place that was never looked at counts as this much, or log 0 would leave nothing to compare."""


class Coverage(NamedTuple):
    """How much attention each place of a source has had in all tokens read so far; 1 where the source is padding. A stepper whose search
    is to weigh it has one in its state, wherever that is; an ensemble has one of each model."""

    weights: Tensor  # (rows, places)


@dataclass(frozen=True)
class Ranking:
    """score(y) = log p(y) / lp(y) + coverage_penalty * sum over places i of log(min(sum over t of w_ti, 1))

        power   lp(y) = |y|^length_penalty
        gnmt    lp(y) = ((5 + |y|) / 6)^length_penalty

    The second form and the coverage are Wu et al.'s (2016, equation 14), with alpha = length_penalty and beta = coverage_penalty. w_ti is
    how much the step that wrote token t looked at place i.
    """

    length_penalty: float = 1.0
    length_form: LengthForm = "power"
    coverage_penalty: float = 0.0

    def __post_init__(self) -> None:
        if self.length_form not in FORMS:
            raise unknown("length_form", self.length_form, FORMS)
        if not self.coverage_penalty >= 0:
            raise UserError(f"coverage_penalty ({self.coverage_penalty}) must be at least 0: what is left out makes a score worse")

    def divisor(self, length: Any) -> Any:
        """lp of a length, a number or a tensor of them."""
        return (length if self.length_form == "power" else (5 + length) / 6) ** self.length_penalty

    def penalties(self, state: State) -> Tensor | float:
        """What coverage adds to the score of each row (rows,) that ends with the next token; several models' attention is averaged."""
        if not self.coverage_penalty:
            return 0.0
        found = list(coverages(state))
        if not found:
            raise UserError(
                f"coverage_penalty ({self.coverage_penalty}) is for models that look at a source while they write, which this one does "
                "not; set it to 0"
            )
        weights = torch.stack([coverage.weights for coverage in found]).mean(0)
        return self.coverage_penalty * weights.clamp(LEAST, 1.0).log().sum(1)


def coverages(state: State) -> Iterator[Coverage]:
    """Those that a state holds."""
    if isinstance(state, Coverage):
        yield state
    elif isinstance(state, (tuple, list)):
        for part in state:
            yield from coverages(part)
    elif isinstance(state, dict):
        yield from coverages(list(state.values()))
