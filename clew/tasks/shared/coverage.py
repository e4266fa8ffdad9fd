"""Coverage: how much a decoder has attended to each place of its source, in beam search scores and as a term of a
loss.

It is measured by the tap of the layer that alignments are taken from, so that every decoder that attends to a source
has it, and no layer computes weights that are not used.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from clew.core.masks import real_positions
from clew.core.taps import watching
from clew.core.types import Memory, State
from clew.decoding.ranking import Coverage
from clew.decoding.stepper import Stepper, read_at
from clew.layers.attention import Attention
from clew.tasks.shared.alignment import by_row, tap_of


class CoveredState(NamedTuple):
    inner: State
    coverage: Coverage


class CoveringStepper:
    """A stepper whose state also holds how much `attention`, a part of its model, has attended to each place of a
    memory (mean over heads). The watched layer computes its equation, since a kernel shows no weights."""

    def __init__(self, stepper: Stepper, attention: Attention, memory: Memory):
        self.stepper = stepper
        self.attention = attention
        self.memory = memory

    @property
    def vocabulary(self) -> int:
        return self.stepper.vocabulary

    def initial_state(self, rows: int, capacity: int | None = None) -> CoveredState:
        sentences, places, _ = self.memory.values.shape
        weights = torch.zeros(sentences, places, device=self.memory.values.device)
        if (real := real_positions(self.memory.mask)) is not None:
            weights = weights.masked_fill(~real, 1.0)
        return CoveredState(
            self.stepper.initial_state(rows, capacity), Coverage(weights.repeat_interleave(rows // sentences, 0))
        )

    def __call__(
        self, tokens: Tensor, mask: Tensor | None, state: CoveredState, at: Tensor | None = None
    ) -> tuple[Tensor, CoveredState]:
        with watch_attention(self.attention) as recorded:
            log_probs, inner = read_at(self.stepper, tokens, mask, state.inner, at)
        attended = by_row(recorded[0], len(tokens)).float()  # (rows, length, places)
        attended = attended if mask is None else attended * mask[..., None]
        return log_probs, CoveredState(inner, Coverage(state.coverage.weights + attended.sum(1)))


def uneven_coverage(weights: Tensor, mask: Tensor | None, source_mask: Tensor | None) -> Tensor:
    """Return the sum over rows and places i of (1 - sum over t of w_ti)^2, from weights w (batch, length, places).

    It is lowest if every place gets a total attention of one (Xu et al. 2015, equation 14: doubly stochastic
    attention).
    """
    real, places = real_positions(mask), real_positions(source_mask)
    weights = weights.to(torch.promote_types(weights.dtype, torch.float32))
    total = (weights if real is None else weights * real[..., None]).sum(1)  # (batch, places)
    uneven = (1 - total) ** 2
    return (uneven if places is None else torch.where(places, uneven, 0.0)).sum()


@contextmanager
def watch_attention(attention: Attention) -> Iterator[list[Any]]:
    """Collect the weights that an attention computes within this context, in the form that its tap shows."""
    recorded: list[Any] = []
    with watching({tap_of(attention): recorded.append}):
        yield recorded
