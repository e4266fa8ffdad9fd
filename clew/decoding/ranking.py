"""Ranking scores of hypotheses of unequal length: log p, length normalisation and coverage of the source."""

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
"""Least coverage of a place, since log 0 would make all scores -inf."""


class Coverage(NamedTuple):
    """Total attention that each place of a source has received from all tokens read so far; 1 where the source is
    padding.

    A stepper whose coverage is scored has one anywhere in its state; an ensemble has one per model.
    """

    weights: Tensor  # (rows, places)


@dataclass(frozen=True)
class Ranking:
    """score(y) = log p(y) / lp(y) + coverage_penalty * sum over places i of log(min(sum over t of w_ti, 1))

        power   lp(y) = |y|^length_penalty
        gnmt    lp(y) = ((5 + |y|) / 6)^length_penalty

    The second form and the coverage are those of Wu et al. (2016, equation 14), with alpha = length_penalty and beta =
    coverage_penalty. w_ti is the attention weight of place i in the step that wrote token t.
    """

    length_penalty: float = 1.0
    length_form: LengthForm = "power"
    coverage_penalty: float = 0.0

    def __post_init__(self) -> None:
        if self.length_form not in FORMS:
            raise unknown("length_form", self.length_form, FORMS)
        if not self.coverage_penalty >= 0:
            raise UserError(
                f"coverage_penalty ({self.coverage_penalty}) must be at least 0, so that places left out lower a score"
            )

    def divisor(self, length: Any) -> Any:
        """Return lp of a length (a number or a tensor)."""
        return (length if self.length_form == "power" else (5 + length) / 6) ** self.length_penalty

    def penalties(self, state: State) -> Tensor | float:
        """Return what coverage adds to the score of each row (rows,) that ends with the next token. The attention of
        several models is averaged."""
        if not self.coverage_penalty:
            return 0.0
        layers = list(coverages(state))
        if not layers:
            raise UserError(
                f"coverage_penalty ({self.coverage_penalty}) needs a model that attends to a source while it writes,"
                " which this one does not; set it to 0"
            )
        weights = torch.stack([coverage.weights for coverage in layers]).mean(0)
        return self.coverage_penalty * weights.clamp(LEAST, 1.0).log().sum(1)


def coverages(state: State) -> Iterator[Coverage]:
    """Yield every Coverage that a state holds."""
    if isinstance(state, Coverage):
        yield state
    elif isinstance(state, (tuple, list)):
        for part in state:
            yield from coverages(part)
    elif isinstance(state, dict):
        yield from coverages(list(state.values()))
