"""Pooling: one vector from the positions of a sequence, or from the levels of a body. Members of POOLINGS are built as
`P(dim)`."""

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


class Pooler(First):
    """tanh(W h_1 + b), a map of the first position's vector, as in BERT (Devlin et al. 2019)."""

    def __init__(self, dim: int):
        super().__init__(dim)
        self.dense = nn.Linear(dim, dim)

    def forward(self, hidden: Tensor, mask: Tensor | None = None) -> Tensor:
        return torch.tanh(self.dense(hidden[:, 0]))


class Last(First):
    """The last real position's vector; with `halves`, the forward half of the last and the backward half of the first
    position."""

    def __init__(self, dim: int, *, halves: bool = False):
        super().__init__(dim)
        self.halves = halves

    def forward(self, hidden: Tensor, mask: Tensor | None = None) -> Tensor:
        last = last_real(hidden, mask, torch.zeros_like(hidden[:, 0]))
        if not self.halves:
            return last
        return torch.cat([last.chunk(2, -1)[0], hidden[:, 0].chunk(2, -1)[1]], -1)


class Mean(First):
    """The mean over the real positions; zero if there are none."""

    def forward(self, hidden: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is None:
            return hidden.mean(1)
        real = real_positions(mask)[..., None]  # type: ignore[index]
        return torch.where(real, hidden, 0.0).sum(1) / real.sum(1).clamp(min=1)


class Max(First):
    """The maximum of each feature over the real positions; zero if there are none."""

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


class Levels(nn.Module):
    """One vector per position from a body's levels: the sum of the `last` ones, or their concatenation if it `joins`.
    `has_embedding` says whether the first level is the embedding."""

    def __init__(
        self,
        num_levels: int,
        dim: int,
        *,
        has_embedding: bool = True,
        last: int | None = None,
        skip: int = 0,
        joins: bool = False,
    ):
        super().__init__()
        chosen = range(num_levels)[: num_levels - skip] if skip < num_levels else range(1)
        self.chosen = list(chosen if last is None else chosen[-last:])
        self.num_levels = num_levels
        self.joins = joins
        self.dim = dim * len(self.chosen) if joins else dim

    def forward(self, levels: Sequence[Tensor]) -> Tensor:
        self.check(levels)
        mixed = [levels[number] for number in self.chosen]
        return torch.cat(mixed, -1) if self.joins else sum(mixed[1:], mixed[0])

    def check(self, levels: Sequence[Tensor]) -> None:
        if len(levels) != self.num_levels:
            raise UserError(f"this mix takes {self.num_levels} levels, not {len(levels)}")


class LayerMix(Levels):
    """gamma * sum_l softmax(s)_l h_l: learned weights of a body's levels (Peters et al. 2018)."""

    def __init__(self, num_levels: int, dim: int = 0, *, has_embedding: bool = True):
        super().__init__(num_levels, dim, has_embedding=has_embedding)
        self.scalars = nn.Parameter(torch.zeros(num_levels))
        self.gamma = nn.Parameter(torch.ones(()))

    def forward(self, levels: Sequence[Tensor]) -> Tensor:
        self.check(levels)
        weights = torch.softmax(self.scalars, 0)
        mixed: Tensor = sum(weight * level for weight, level in zip(weights, levels, strict=True))
        return self.gamma * mixed


def first_level(num_levels: int, dim: int, *, has_embedding: bool = True) -> Levels:
    return Levels(num_levels, dim, last=1, skip=num_levels - 1)


def last_level(num_levels: int, dim: int, *, has_embedding: bool = True) -> Levels:
    return Levels(num_levels, dim, last=1)


def second_to_last_level(num_levels: int, dim: int, *, has_embedding: bool = True) -> Levels:
    return Levels(num_levels, dim, last=1, skip=1)


def sum_of_layers(num_levels: int, dim: int, *, has_embedding: bool = True) -> Levels:
    """h_1 + ... + h_L, as Devlin et al. (2019, table 7) sum all 12 layers of BERT: without the embedding, unless it is
    the only level."""
    return Levels(num_levels, dim, last=max(num_levels - has_embedding, 1))


def sum_of_last_four(num_levels: int, dim: int, *, has_embedding: bool = True) -> Levels:
    return Levels(num_levels, dim, last=4)


def last_four_joined(num_levels: int, dim: int, *, has_embedding: bool = True) -> Levels:
    return Levels(num_levels, dim, last=4, joins=True)


MIXES: dict[str, Callable[..., Levels]] = {
    "learned": LayerMix,
    "first": first_level,
    "last": last_level,
    "second_to_last": second_to_last_level,
    "sum": sum_of_layers,
    "sum_with_embedding": Levels,
    "sum_last_four": sum_of_last_four,
    "join_last_four": last_four_joined,
}
"""Mixes of a body's levels; members are built as `M(num_levels, dim, has_embedding=...)`."""
POOLINGS: dict[str, Callable[..., First]] = {
    "first": First,
    "last": Last,
    "mean": Mean,
    "max": Max,
    "attention": AttentionPooling,
    "pooler": Pooler,
}
