"""Many vectors to one: over the positions of a sequence, or over the levels of a body. Members of POOLINGS are built as `P(dim)`."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from clew.core.errors import UserError
from clew.core.masks import last_real, real_positions


class First(nn.Module):
    """The first position's vector."""

    def __init__(self, dim: int):
        super().__init__()
        self.dim = dim

    def forward(self, hidden: Tensor, mask: Tensor | None = None) -> Tensor:
        return hidden[:, 0]


class Last(First):
    """Where reading ends: the last real position; with `halves`, the forward half's last and the backward half's first."""

    def __init__(self, dim: int, *, halves: bool = False):
        super().__init__(dim)
        self.halves = halves

    def forward(self, hidden: Tensor, mask: Tensor | None = None) -> Tensor:
        last = last_real(hidden, mask, torch.zeros_like(hidden[:, 0]))
        if not self.halves:
            return last
        return torch.cat([last.chunk(2, -1)[0], hidden[:, 0].chunk(2, -1)[1]], -1)


class Mean(First):
    """The average over the real positions; zero where there are none."""

    def forward(self, hidden: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is None:
            return hidden.mean(1)
        real = real_positions(mask)[..., None]  # type: ignore[index]
        return torch.where(real, hidden, 0.0).sum(1) / real.sum(1).clamp(min=1)


class Max(First):
    """The largest value of each feature over the real positions; zero where there are none."""

    def forward(self, hidden: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is None:
            return hidden.amax(1)
        real = real_positions(mask)[..., None]  # type: ignore[index]
        largest = hidden.masked_fill(~real, float("-inf")).amax(1)
        return torch.where(real.any(1), largest, 0.0)


class AttentionPooling(First):
    """sum_i w_i h_i,  w = softmax(v . tanh(W h_i + b))  (Yang et al. 2016)."""

    def __init__(self, dim: int):
        super().__init__(dim)
        self.inner = nn.Linear(dim, dim)
        self.vector = nn.Linear(dim, 1, bias=False)

    def forward(self, hidden: Tensor, mask: Tensor | None = None) -> Tensor:
        scores = self.vector(torch.tanh(self.inner(hidden)))[..., 0]  # (batch, length)
        if mask is not None:
            real = real_positions(mask)
            assert real is not None
            scores = scores.masked_fill(~real & real.any(1, keepdim=True), float("-inf"))
            hidden = torch.where(real[..., None], hidden, 0.0)
        return (torch.softmax(scores, -1)[:, None] @ hidden)[:, 0]


class LayerMix(nn.Module):
    """gamma * sum_l softmax(s)_l h_l: a task's own weighting of a body's levels (Peters et al. 2018)."""

    def __init__(self, num_levels: int):
        super().__init__()
        self.scalars = nn.Parameter(torch.zeros(num_levels))
        self.gamma = nn.Parameter(torch.ones(()))

    def forward(self, levels: Sequence[Tensor]) -> Tensor:
        if len(levels) != len(self.scalars):
            raise UserError(f"this mix weighs {len(self.scalars)} levels, but {len(levels)} were given")
        weights = torch.softmax(self.scalars, 0)
        return self.gamma * sum(weight * level for weight, level in zip(weights, levels, strict=True))


POOLINGS: dict[str, Callable[..., First]] = {"first": First, "last": Last, "mean": Mean, "max": Max, "attention": AttentionPooling}
