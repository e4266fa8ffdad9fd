"""Which cell of a recurrent network keeps track of what: a search over all cells and properties, fitted on one text and judged on another
(after Karpathy et al. 2015, who looked for such cells by eye).

A cell tells a boolean property by a threshold on its value, above or below, the one of the best F1 on the first text; it tells a number
by the line that fits it best there. On the second text, with threshold and line as they are,

    skill = (F1 - F1 of always saying yes) / (1 - F1 of always saying yes)       a boolean
    skill = 1 - sum (y - a - b x)^2 / sum (y - mean y)^2                         a number: its R^2

so that 1 is perfect and 0 no better than a constant. All that is needed are sums over positions, so that a text of any length will do.
Thresholds are the edges of `BINS` equal bins of x / (1 + |x|).
"""

from typing import NamedTuple

import torch
from torch import Tensor

BINS = 512


class Tally:
    """Sums over the positions of a text: of booleans, how often each unit's value was in each bin, in all and while a property held; of
    numbers, the moments."""

    def __init__(self, units: int, booleans: int, numbers: int, device: torch.device | str = "cpu"):
        self.count = 0
        self.all = torch.zeros(units, BINS, dtype=torch.long, device=device)
        self.held = torch.zeros(booleans, units, BINS, dtype=torch.long, device=device)
        self.x, self.xx = (torch.zeros(units, dtype=torch.float64, device=device) for _ in range(2))
        self.y, self.yy = (torch.zeros(numbers, dtype=torch.float64, device=device) for _ in range(2))
        self.xy = torch.zeros(numbers, units, dtype=torch.float64, device=device)

    def add(self, values: Tensor, booleans: Tensor, numbers: Tensor) -> None:
        """Values (positions, units), and of every property (positions, properties)."""
        self.count += len(values)
        flat = bins_of(values) + BINS * torch.arange(values.shape[1], device=values.device)
        size = self.all.numel()
        self.all += torch.bincount(flat.flatten(), minlength=size).view_as(self.all)
        for held, where in zip(self.held, booleans.unbind(1), strict=True):
            held += torch.bincount(flat[where].flatten(), minlength=size).view_as(held)
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
    """The value at an edge between bins: x >= it are the bins from there on."""
    squashed = 2 * edge / BINS - 1
    return float("inf") if squashed >= 1 else float("-inf") if squashed <= -1 else squashed / (1 - abs(squashed))


class Cuts(NamedTuple):
    """Of every property and unit: the edge, and whether it is told by being above it; each (properties, units)."""

    edges: Tensor
    above: Tensor


class Told(NamedTuple):
    """How well each unit tells each boolean property, (properties, units), and what constant answers reach, (properties,)."""

    f1: Tensor
    accuracy: Tensor
    always: Tensor
    majority: Tensor

    @property
    def skill(self) -> Tensor:
        return (self.f1 - self.always[:, None]) / (1 - self.always[:, None]).clamp(min=1e-12)


def fit_cuts(tally: Tally) -> Cuts:
    """The threshold and side of the best F1 = 2 tp / (2 tp + fp + fn)."""
    edges, sides = [], []
    for held in tally.held:  # a property at a time: (units, BINS + 1)
        both = []
        for above in (True, False):
            hits, said = past_edges(held, above), past_edges(tally.all, above)
            both.append(2 * hits.double() / (said + held.sum(-1, keepdim=True)).clamp(min=1))
        best = torch.stack(both).max(-1)  # (sides, units)
        side = best.values.argmax(0)
        edges.append(best.indices.gather(0, side[None])[0])
        sides.append(side == 0)
    empty = torch.zeros(0, tally.all.shape[0], dtype=torch.long, device=tally.all.device)
    return Cuts(torch.stack(edges), torch.stack(sides)) if edges else Cuts(empty, empty.bool())


def past_edges(counts: Tensor, above: bool) -> Tensor:
    """How many positions (units, BINS + 1) lie above each edge, or below it."""
    below = torch.nn.functional.pad(counts.cumsum(-1), (1, 0))
    return below[:, -1:] - below if above else below


def judge_cuts(cuts: Cuts, tally: Tally) -> Told:
    f1, accuracy = [], []
    yes = tally.held[:, 0].sum(-1) if len(tally.held) else tally.all.new_zeros(0)
    for held, edges, above in zip(tally.held, cuts.edges, cuts.above, strict=True):

        def chosen(counts: Tensor, edges: Tensor = edges, above: Tensor = above) -> Tensor:
            up, down = (past_edges(counts, side).gather(-1, edges[:, None])[:, 0] for side in (True, False))
            return torch.where(above, up, down).double()

        hits, said = chosen(held), chosen(tally.all)
        wanted = held.sum(-1).double()
        f1.append(2 * hits / (said + wanted).clamp(min=1))
        accuracy.append((tally.count - said - wanted + 2 * hits) / tally.count)
    share = yes.double() / tally.count
    nothing = torch.zeros(0, tally.all.shape[0], dtype=torch.float64, device=tally.all.device)
    return Told(
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
    """Least squares; a unit that never changes tells the mean."""
    n = tally.count
    variance = tally.xx - tally.x.square() / n
    covariance = tally.xy - tally.y[:, None] * tally.x / n
    slopes = torch.where(variance > 1e-12 * n, covariance / variance.clamp(min=1e-300), 0.0)
    return Fit((tally.y[:, None] - slopes * tally.x) / n, slopes)


def judge_lines(fit: Fit, tally: Tally) -> Tensor:
    """R^2 (properties, units), below 0 where the line is worse than the mean."""
    a, b, n = fit.intercepts, fit.slopes, tally.count
    errors = tally.yy[:, None] + n * a**2 + b**2 * tally.xx + 2 * (a * b * tally.x - a * tally.y[:, None] - b * tally.xy)
    spread = tally.yy - tally.y**2 / n
    return 1 - errors / spread[:, None].clamp(min=1e-12)


def correlations(tally: Tally) -> Tensor:
    """Pearson's r (properties, units); 0 where either never changes."""
    n = tally.count
    covariance = tally.xy - tally.y[:, None] * tally.x / n
    spread = (tally.xx - tally.x**2 / n).clamp(min=0) * (tally.yy - tally.y**2 / n).clamp(min=0)[:, None]
    return torch.where(spread > 0, covariance / spread.clamp(min=1e-300).sqrt(), 0.0)
