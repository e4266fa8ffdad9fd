"""Attribution: how much each place of an input has to do with a score. Pure functions of a score f of vectors x (places, dim).

    input x gradient       a_i = x_i . df/dx_i                                                      (Shrikumar et al. 2017)
    integrated gradients   a_i = (x_i - x'_i) . mean over k of df/dx_i (x' + (k - 1/2) / m (x - x'))  (Sundararajan et al. 2017)
    occlusion              a_i = f(x) - f(x with x'_i in the place of x_i)                            (Zeiler and Fergus 2014)

x' is a baseline that says nothing. Integrated gradients are complete, sum a_i = f(x) - f(x'), but for the error of the sum over m steps
(the midpoint rule), which is given beside them; it falls with m^2 where f is smooth.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

Score = Callable[[Tensor], Tensor]
"""From vectors (rows, places, dim) to a number a row (rows,)."""

ROWS = 16
"""Rows that are scored together."""


class Attribution(NamedTuple):
    """What each place has to do with the score; f(x), f(x') where there is a baseline, and how far the sum is from their difference."""

    values: Tensor  # (places,)
    score: float
    baseline: float | None = None

    @property
    def gap(self) -> float | None:
        """sum a_i - (f(x) - f(x')): 0 where an attribution is complete."""
        return None if self.baseline is None else float(self.values.double().sum()) - (self.score - self.baseline)


def input_x_gradient(score: Score, x: Tensor) -> Attribution:
    gradient, found = gradients(score, x[None])
    return Attribution((x * gradient[0]).sum(-1), float(found[0]))


def integrated_gradients(score: Score, x: Tensor, baseline: Tensor, steps: int = 50) -> Attribution:
    total = torch.zeros_like(x)
    for start in range(0, steps, ROWS):
        along = (torch.arange(start, min(start + ROWS, steps), device=x.device, dtype=x.dtype) + 0.5) / steps
        gradient, _ = gradients(score, baseline + along[:, None, None] * (x - baseline))
        total += gradient.sum(0)
    with torch.no_grad():
        ends = score(torch.stack([x, baseline]))
    return Attribution(((x - baseline) * total / steps).sum(-1), float(ends[0]), float(ends[1]))


@torch.no_grad()
def occlusion(score: Score, x: Tensor, baseline: Tensor) -> Attribution:
    whole, found = float(score(x[None])[0]), []
    for start in range(0, len(x), ROWS):
        places = torch.arange(start, min(start + ROWS, len(x)), device=x.device)
        rows = x.repeat(len(places), 1, 1)
        rows[torch.arange(len(places), device=x.device), places] = baseline[places]
        found.append(whole - score(rows))
    return Attribution(torch.cat(found), whole)


def gradients(score: Score, x: Tensor) -> tuple[Tensor, Tensor]:
    """df/dx of every row by itself, and f."""
    with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):  # cuDNN's recurrences have no gradient in evaluation mode
        x = x.detach().requires_grad_()
        found = score(x)
        return torch.autograd.grad(found.sum(), x)[0], found.detach()
