"""Calibration: whether confidence equals accuracy. Expected calibration error and temperature scaling (Guo et al.
2017)."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from clew.core.errors import UserError
from clew.metrics.bootstrap import Interval, statistic_interval

BINS = 15
SAMPLES = 2_000
LOWEST, HIGHEST = 0.01, 100.0
"""The range of temperatures that is searched."""


@dataclass(frozen=True)
class Calibration:
    """Predictions by confidence (the largest probability), in bins of equal width: the number of predictions, the
    number of right ones, and the sum of confidences. Parts add."""

    counts: tuple[int, ...]
    right: tuple[int, ...]
    confidence: tuple[float, ...]

    def __add__(self, other: "Calibration") -> "Calibration":
        if len(self.counts) != len(other.counts):
            raise UserError(
                f"calibrations of {len(self.counts)} and {len(other.counts)} bins cannot be added; give both the same"
                " num_bins"
            )
        return Calibration(
            tuple(a + b for a, b in zip(self.counts, other.counts, strict=True)),
            tuple(a + b for a, b in zip(self.right, other.right, strict=True)),
            tuple(a + b for a, b in zip(self.confidence, other.confidence, strict=True)),
        )

    @property
    def expected_error(self) -> float:
        """sum_b (count_b / count) |accuracy_b - mean confidence_b|, between 0 and 1."""
        if not sum(self.counts):
            raise UserError("nothing was counted, so there is no calibration error; give at least one example")
        return sum(
            abs(right - confidence) for right, confidence in zip(self.right, self.confidence, strict=True)
        ) / sum(self.counts)

    def describe(self) -> str:
        """One line in per cent."""
        whole = max(sum(self.counts), 1)
        return (
            f"calibration error {100 * self.expected_error:.2f}, "
            f"confidence {100 * sum(self.confidence) / whole:.2f}, accuracy {100 * sum(self.right) / whole:.2f}"
        )


def calibration(probabilities: Tensor, targets: Tensor, *, num_bins: int = BINS) -> Calibration:
    """The calibration of probabilities (examples, labels) against labels (examples,). A bin includes its upper end."""
    confidence, right, bins = binned(probabilities, targets, num_bins)
    counts, rights, sums = (torch.bincount(bins, weights, num_bins) for weights in (None, right, confidence))
    return Calibration(tuple(counts.tolist()), tuple(rights.long().tolist()), tuple(sums.tolist()))


def calibration_interval(
    probabilities: Tensor,
    targets: Tensor,
    *,
    num_bins: int = BINS,
    level: float = 0.95,
    samples: int = SAMPLES,
    seed: int = 1,
) -> Interval:
    """The bootstrap interval of the expected calibration error."""
    confidence, right, bins = binned(probabilities, targets, num_bins)
    gaps = (F.one_hot(bins, num_bins) * (right - confidence)[:, None]).numpy()  # (examples, bins)
    return statistic_interval(
        lambda drawn: np.abs(drawn @ gaps).sum(1) / drawn.sum(1),
        np.ones(len(gaps), np.int64),
        level=level,
        samples=samples,
        seed=seed,
    )


def fit_temperature(logits: Tensor, targets: Tensor, *, smoothing: float = 0.0) -> float:
    """The T that minimises the loss of softmax(logits / T) on `targets` (examples,); fit it on held-out examples.
    `smoothing` is the share of a target that is spread over all labels: 1 / (examples + 2) avoids certainty from a few
    examples that are all right (Platt 1999).

    The loss is convex in 1 / T, where its slope is sum_n E[logit_n] - logit_n[target_n]; bisection finds the slope's
    zero. The predicted labels do not change, only their confidence. T is between 0.01 and 100: at an end if all or no
    labels are right, and 1 if the loss does not depend on T.
    """
    check_examples(logits, targets)
    logits = logits.detach().double()
    chosen = (1 - smoothing) * logits.gather(1, targets[:, None]).sum() + smoothing * logits.mean(1).sum()

    def slope(temperature: float) -> float:
        return float(((logits / temperature).softmax(1) * logits).sum() - chosen)

    if slope(LOWEST) == slope(HIGHEST):
        return 1.0
    low, high = LOWEST, HIGHEST
    for _ in range(60):
        middle = (low * high) ** 0.5
        # Above the best T, softmax(logits / T) is too flat: the mean logit is below the target's, so the slope is
        # negative.
        if slope(middle) <= 0:
            high = middle
        else:
            low = middle
    return (low * high) ** 0.5


class HeldOut(NamedTuple):
    """Loss and calibration error on examples that the probabilities were not fitted to."""

    loss: float
    error: float


def held_out(logits: Tensor, targets: Tensor, temperature: float = 1.0) -> HeldOut:
    """The mean loss and the expected calibration error of softmax(logits / T)."""
    check_examples(logits, targets)
    log_probs = (logits.detach().double() / temperature).log_softmax(1)
    loss = -log_probs.gather(1, targets[:, None]).mean()
    return HeldOut(float(loss), calibration(log_probs.exp(), targets).expected_error)


def binned(probabilities: Tensor, targets: Tensor, num_bins: int = BINS) -> tuple[Tensor, Tensor, Tensor]:
    """Each example's confidence, correctness and bin, on the CPU in float64."""
    check_examples(probabilities, targets)
    if num_bins < 1:
        raise UserError(f"num_bins ({num_bins}) must be at least 1")
    confidence, label = probabilities.detach().cpu().double().max(1)
    bins = ((confidence * num_bins).ceil().long() - 1).clamp(0, num_bins - 1)
    return confidence, (label == targets.cpu()).double(), bins


def check_examples(scores: Tensor, targets: Tensor) -> None:
    if scores.dim() != 2 or targets.shape != scores.shape[:1]:
        raise UserError(
            f"targets {tuple(targets.shape)} must be (examples,) for {tuple(scores.shape)} of (examples, labels)"
        )
    if not len(scores):
        raise UserError("calibration needs at least one example")
