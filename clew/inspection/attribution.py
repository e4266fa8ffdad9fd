"""Attribution: how much each place of an input contributes to a score. Pure functions of a score f of vectors x
(places, dim), or of numbers on a grid (height, width, channels).

    input x gradient       a_i = x_i . df/dx_i                                      (Shrikumar et al. 2017)
    integrated gradients   a_i = (x_i - x'_i) . mean over k of df/dx_i (x' + (k - 1/2) / m (x - x'))
                                                                                    (Sundararajan et al. 2017)
    occlusion              a_i = f(x) - f(x with x'_i in the place of x_i)          (Zeiler and Fergus 2014)

x' is an uninformative baseline. Integrated gradients are complete, sum a_i = f(x) - f(x'), except for the error of the
sum over m steps (the midpoint rule), which is reported as `gap`; it falls with m^2 if f is smooth.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

Score = Callable[[Tensor], Tensor]
"""A function from vectors (rows, places, dim) to one number per row (rows,)."""

ROWS = 16
"""Rows that are scored together."""


class Attribution(NamedTuple):
    """The attribution of each place; f(x), and f(x') if the method has a baseline.

    `entries` has the shape of x: the attribution of each number, if the method gives it; `values` are its sums per
    place.
    """

    values: Tensor  # (places,), or (height, width)
    score: float
    baseline: float | None = None
    entries: Tensor | None = None

    @property
    def gap(self) -> float | None:
        """sum a_i - (f(x) - f(x')): 0 if an attribution is complete."""
        return None if self.baseline is None else float(self.values.double().sum()) - (self.score - self.baseline)


def input_x_gradient(score: Score, x: Tensor) -> Attribution:
    gradient, scores = gradients(score, x[None])
    entries = x * gradient[0]
    return Attribution(entries.sum(-1), float(scores[0]), entries=entries)


def integrated_gradients(score: Score, x: Tensor, baseline: Tensor, steps: int = 50) -> Attribution:
    total = torch.zeros_like(x)
    for start in range(0, steps, ROWS):
        along = (torch.arange(start, min(start + ROWS, steps), device=x.device, dtype=x.dtype) + 0.5) / steps
        gradient, _ = gradients(score, baseline + along.reshape(-1, *[1] * x.dim()) * (x - baseline))
        total += gradient.sum(0)
    with torch.no_grad():
        ends = score(torch.stack([x, baseline]))
    entries = (x - baseline) * total / steps
    return Attribution(entries.sum(-1), float(ends[0]), float(ends[1]), entries)


@torch.no_grad()
def occlusion(score: Score, x: Tensor, baseline: Tensor, cells: Tensor | None = None) -> Attribution:
    """Occlude place by place (places,), or by `cells`, which has the shape of x without features and numbers the groups
    from 0."""
    whole, drops = float(score(x[None])[0]), []
    cells = torch.arange(len(x), device=x.device) if cells is None else cells.to(x.device)
    for group in torch.arange(int(cells.max()) + 1, device=x.device).split(ROWS):
        is_hidden = cells[None] == group.reshape(-1, *[1] * cells.dim())
        drops.append(whole - score(torch.where(is_hidden[..., None], baseline, x)))
    return Attribution(torch.cat(drops), whole)


def gradients(score: Score, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return df/dx of every row, and f."""
    # Without cuDNN: its recurrences have no backward pass in evaluation mode.
    with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
        x = x.detach().requires_grad_()
        scores = score(x)
        return torch.autograd.grad(scores.sum(), x)[0], scores.detach()
