"""Cells of a recurrent network that track properties of a text: a search over all cells and properties, fitted on one
text and evaluated on another (after Karpathy et al. 2015, who looked for such cells by eye).

A cell predicts a boolean property by a threshold on its value, from above or below, with the best F1 on the first text;
it predicts a number by the line of least squares there. On the second text, with the same threshold and line,

    skill = (F1 - F1 of always saying yes) / (1 - F1 of always saying yes)       a boolean
    skill = 1 - sum (y - a - b x)^2 / sum (y - mean y)^2                         a number: its R^2

so that 1 is perfect and 0 no better than a constant. Only sums over positions are needed, so texts may be of any
length. Thresholds are the edges of `BINS` equal bins of x / (1 + |x|).
"""

from typing import NamedTuple

import torch
from torch import Tensor

BINS = 512


class Tally:
    """Sums over the positions of a text: for booleans, how often each unit's value was in each bin, in total and while
    a property held; for numbers, moments."""

    def __init__(self, units: int, booleans: int, numbers: int, device: torch.device | str = "cpu"):
        self.count = 0
        self.all = torch.zeros(units, BINS, dtype=torch.long, device=device)
        self.histogram = torch.zeros(booleans, units, BINS, dtype=torch.long, device=device)
        self.x, self.xx = (torch.zeros(units, dtype=torch.float64, device=device) for _ in range(2))
        self.y, self.yy = (torch.zeros(numbers, dtype=torch.float64, device=device) for _ in range(2))
        self.xy = torch.zeros(numbers, units, dtype=torch.float64, device=device)

    def add(self, values: Tensor, booleans: Tensor, numbers: Tensor) -> None:
        """Add the values of units (positions, units), and of properties (positions, properties)."""
        self.count += len(values)
        flat = bins_of(values) + BINS * torch.arange(values.shape[1], device=values.device)
        size = self.all.numel()
        self.all += torch.bincount(flat.flatten(), minlength=size).view_as(self.all)
        for histogram, where in zip(self.histogram, booleans.unbind(1), strict=True):
            histogram += torch.bincount(flat[where].flatten(), minlength=size).view_as(histogram)
        x, y = values.double(), numbers.double()
        self.x += x.sum(0)
        self.xx += x.square().sum(0)
        self.y += y.sum(0)
        self.yy += y.square().sum(0)
        self.xy += y.mT @ x


def bins_of(values: Tensor) -> Tensor:
    squashed = values / (1 + values.abs())
    return ((squashed + 1) * (BINS / 2)).long().clamp(0, BINS - 1)


def threshold_of(edge: int) -> float:
    """Return the value at an edge between bins; bins from the edge on have x >= that value."""
    squashed = 2 * edge / BINS - 1
    return float("inf") if squashed >= 1 else float("-inf") if squashed <= -1 else squashed / (1 - abs(squashed))


class Cuts(NamedTuple):
    """For every property and unit: the edge, and whether values above it predict the property; each (properties,
    units)."""

    edges: Tensor
    above: Tensor


class Predictiveness(NamedTuple):
    """How well each unit predicts each boolean property (properties, units), and the scores of constant answers
    (properties,)."""

    f1: Tensor
    accuracy: Tensor
    always: Tensor
    majority: Tensor

    @property
    def skill(self) -> Tensor:
        return (self.f1 - self.always[:, None]) / (1 - self.always[:, None]).clamp(min=1e-12)


def fit_cuts(tally: Tally) -> Cuts:
    """Find the threshold and side with the best F1 = 2 tp / (2 tp + fp + fn)."""
    edges, sides = [], []
    for histogram in tally.histogram:  # one property at a time: (units, BINS + 1)
        both = []
        for above in (True, False):
            hits, predicted = past_edges(histogram, above), past_edges(tally.all, above)
            both.append(2 * hits.double() / (predicted + histogram.sum(-1, keepdim=True)).clamp(min=1))
        best = torch.stack(both).max(-1)  # (sides, units)
        side = best.values.argmax(0)
        edges.append(best.indices.gather(0, side[None])[0])
        sides.append(side == 0)
    empty = torch.zeros(0, tally.all.shape[0], dtype=torch.long, device=tally.all.device)
    return Cuts(torch.stack(edges), torch.stack(sides)) if edges else Cuts(empty, empty.bool())


def past_edges(counts: Tensor, above: bool) -> Tensor:
    """Count the positions (units, BINS + 1) above each edge, or below it."""
    below = torch.nn.functional.pad(counts.cumsum(-1), (1, 0))
    return below[:, -1:] - below if above else below


def judge_cuts(cuts: Cuts, tally: Tally) -> Predictiveness:
    f1, accuracy = [], []
    yes = tally.histogram[:, 0].sum(-1) if len(tally.histogram) else tally.all.new_zeros(0)
    for histogram, edges, above in zip(tally.histogram, cuts.edges, cuts.above, strict=True):

        def chosen(counts: Tensor, edges: Tensor = edges, above: Tensor = above) -> Tensor:
            up, down = (past_edges(counts, side).gather(-1, edges[:, None])[:, 0] for side in (True, False))
            return torch.where(above, up, down).double()

        hits, num_predicted = chosen(histogram), chosen(tally.all)
        num_true = histogram.sum(-1).double()
        f1.append(2 * hits / (num_predicted + num_true).clamp(min=1))
        accuracy.append((tally.count - num_predicted - num_true + 2 * hits) / tally.count)
    share = yes.double() / tally.count
    nothing = torch.zeros(0, tally.all.shape[0], dtype=torch.float64, device=tally.all.device)
    return Predictiveness(
        torch.stack(f1) if f1 else nothing,
        torch.stack(accuracy) if accuracy else nothing,
        2 * share / (1 + share),
        torch.maximum(share, 1 - share),
    )


class Fit(NamedTuple):
    """y = intercept + slope x, (properties, units)."""

    intercepts: Tensor
    slopes: Tensor


def fit_lines(tally: Tally) -> Fit:
    """Fit lines by least squares; a constant unit predicts the mean."""
    n = tally.count
    variance = tally.xx - tally.x.square() / n
    covariance = tally.xy - tally.y[:, None] * tally.x / n
    slopes = torch.where(variance > 1e-12 * n, covariance / variance.clamp(min=1e-300), 0.0)
    return Fit((tally.y[:, None] - slopes * tally.x) / n, slopes)


def judge_lines(fit: Fit, tally: Tally) -> Tensor:
    """Return R^2 (properties, units), negative if the line is worse than the mean."""
    a, b, n = fit.intercepts, fit.slopes, tally.count
    errors = (
        tally.yy[:, None] + n * a**2 + b**2 * tally.xx + 2 * (a * b * tally.x - a * tally.y[:, None] - b * tally.xy)
    )
    spread = tally.yy - tally.y**2 / n
    return 1 - errors / spread[:, None].clamp(min=1e-12)


def correlations(tally: Tally) -> Tensor:
    """Return Pearson's r (properties, units); 0 if either is constant."""
    n = tally.count
    covariance = tally.xy - tally.y[:, None] * tally.x / n
    spread = (tally.xx - tally.x**2 / n).clamp(min=0) * (tally.yy - tally.y**2 / n).clamp(min=0)[:, None]
    return torch.where(spread > 0, covariance / spread.clamp(min=1e-300).sqrt(), 0.0)
