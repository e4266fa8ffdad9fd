"""Scheduled sampling (Bengio et al. 2015): in training, the decoder reads its own predictions in place of some
targets, more often the longer it has trained, so that it learns to recover from its mistakes. Knows no task.

Each token that the decoder reads is the previous target with probability eps(step), else a prediction. Predictions
are drawn from a first pass over the whole target, without gradients, and the second pass learns (Duckworth et al.
2019, with one drawing pass). All positions are computed at once, so that Transformers and decoders with attention are
treated alike. A prediction is thus drawn given the targets before it; Bengio et al. draw it given the tokens that
were read before, one position after another.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from clew.core.errors import UserError

AT_ONCE = 1024
"""Positions whose probabilities over the vocabulary are held in memory at a time."""


class LinearDecay:
    """eps(i) = max(floor, start - slope * i) at step i."""

    def __init__(self, *, start: float = 1.0, slope: float = 1e-4, floor: float = 0.0):
        for name, value in (("start", start), ("floor", floor)):
            if not 0 <= value <= 1:
                raise UserError(f"the {name} of scheduled_sampling ({value}) must be a probability, between 0 and 1")
        if not slope >= 0:
            raise UserError(
                f"the slope of scheduled_sampling ({slope}) must be at least 0, so that targets are read less and less"
            )
        self.start, self.slope, self.floor = start, slope, floor

    def __call__(self, step: Tensor) -> Tensor:
        return (self.start - self.slope * step).clamp(min=self.floor)


class ExponentialDecay:
    """eps(i) = base^i."""

    def __init__(self, *, base: float = 0.9999):
        if not 0 < base < 1:
            raise UserError(f"the base of scheduled_sampling ({base}) must be between 0 and 1, such as 0.9999")
        self.base = base

    def __call__(self, step: Tensor) -> Tensor:
        return self.base**step


class InverseSigmoidDecay:
    """eps(i) = k / (k + exp(i / k)) with k = `scale`; eps is 1/2 at i = k log k."""

    def __init__(self, *, scale: float = 1000.0):
        if not scale >= 1:
            raise UserError(
                f"the scale of scheduled_sampling ({scale}) must be at least 1; it is in steps, and larger is slower"
            )
        self.scale = scale

    def __call__(self, step: Tensor) -> Tensor:
        return torch.sigmoid(math.log(self.scale) - step / self.scale)


Decay = Callable[[Tensor], Tensor]
"""Maps steps (float32) to the probability of reading a target."""


def draw_tokens(hidden: Tensor, log_probs: Callable[[Tensor], Tensor]) -> Tensor:
    """Sample a token (batch, length) for each vector (batch, length, dim) from its distribution."""
    pieces = hidden.flatten(0, 1).split(AT_ONCE)
    return torch.cat([torch.multinomial(log_probs(piece).exp(), 1) for piece in pieces]).view(hidden.shape[:2])


def mix_tokens(tokens: Tensor, predicted: Tensor, share: Tensor) -> Tensor:
    """Return the decoder's inputs (batch, length): each of `tokens` with probability `share` (batch,), else the
    prediction of the position before it. The first token is always kept."""
    own_inputs = torch.cat([tokens[:, :1], predicted[:, :-1]], 1)
    return torch.where(torch.rand(tokens.shape, device=tokens.device) < share[:, None], tokens, own_inputs)


DECAYS: dict[str, Callable[..., Decay]] = {
    "linear": LinearDecay,
    "exponential": ExponentialDecay,
    "inverse_sigmoid": InverseSigmoidDecay,
}
