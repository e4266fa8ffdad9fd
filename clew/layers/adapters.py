"""Adapters: small trained maps beside the frozen maps of a body. Members of ADAPTERS are built as `A(linear, *,
options)`."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.core.config import Part, build_part, part_name, part_options
from clew.core.errors import UserError, unknown
from clew.layers.attending.cross_attention import CrossAttention
from clew.layers.attention import SelfAttention
from clew.layers.feedforward import FeedForward

ADAPTABLE = ("query", "key", "value", "output", "inner", "gate", "outer")
"""Names of the linear maps, in attention and feed-forward layers, that an adapter can be attached to."""
USUAL = ["query", "value"]
"""The maps that are adapted by default (Hu et al. 2021, section 7.1)."""


class LowRank(nn.Linear):
    """Low-rank adaptation (Hu et al. 2021).

        y = W x + b + (alpha / rank) U D dropout(x)        D (rank, inputs), U (outputs, rank)

    W and b are frozen. U starts at 0, so that the adapted map first equals the original.

    The layer is itself a linear map and keeps the name `weight`: weight maps and checkpoints of the base model still
    fit.
    """

    def __init__(
        self,
        linear: nn.Linear,
        *,
        rank: int = 8,
        alpha: float = 16.0,
        dropout: float = 0.0,
        targets: list[str] | None = None,
    ):
        """`targets` is read by `adapt`: the names of the maps to adapt."""
        if rank < 1:
            raise UserError(f"the rank of an adapter ({rank}) must be at least 1; set transfer.adapter.rank")
        if not 0 <= dropout < 1:
            raise UserError(
                f"an adapter's dropout ({dropout}) must be at least 0 and below 1; set transfer.adapter.dropout"
            )
        nn.Module.__init__(self)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight, self.bias = linear.weight, linear.bias
        for parameter in (self.weight, self.bias):
            if parameter is not None:
                parameter.requires_grad_(False)
        self.down = nn.Parameter(torch.empty(rank, self.in_features))
        self.up = nn.Parameter(torch.zeros(self.out_features, rank))
        nn.init.normal_(self.down, std=self.in_features**-0.5)
        self.scale = alpha / rank
        self.dropout = dropout

    def forward(self, x: Tensor) -> Tensor:
        dropped = F.dropout(x, self.dropout, self.training) if self.dropout else x
        return F.linear(x, self.weight, self.bias) + self.scale * F.linear(F.linear(dropped, self.down), self.up)

    def merged(self) -> nn.Linear:
        """The same map as one matrix, W + (alpha / rank) U D."""
        linear = nn.Linear(self.in_features, self.out_features, bias=self.bias is not None, device="meta")
        change = (self.up.double() @ self.down.double()) * self.scale
        linear.weight = nn.Parameter((self.weight.double() + change).to(self.weight.dtype))
        linear.bias = self.bias
        return linear.requires_grad_(True)


def adapt(body: nn.Module, adapter: Part) -> int:
    """Replace every targeted map of a body, or of a part of one, by an adapter around it. Return the number of
    adapters."""
    targets = part_options(adapter).get("targets", USUAL)
    maps = list(adaptable(body))
    known = sorted({name for _, name in maps}, key=ADAPTABLE.index)
    if not known:
        raise UserError(
            f"transfer.adapter={part_name(adapter)} adapts the maps {', '.join(ADAPTABLE)}, and this body has none of"
            " them; use transfer.freeze instead"
        )
    if not targets:
        raise UserError(f"transfer.adapter.targets is empty; name some of {', '.join(known)}")
    for target in targets:
        if target not in known:
            raise unknown("map for transfer.adapter.targets", target, known)
    targeted = [(part, name) for part, name in maps if name in targets]
    for part, name in targeted:
        setattr(part, name, build_part("adapter", adapter, ADAPTERS, getattr(part, name)))
    return len(targeted)


def adaptable(body: nn.Module) -> Iterator[tuple[nn.Module, str]]:
    """Yield every map that can be adapted, as its parent module and its name there."""
    for part in body.modules():
        if isinstance(part, (SelfAttention, CrossAttention, FeedForward)):
            yield from ((part, name) for name in ADAPTABLE if isinstance(getattr(part, name, None), nn.Linear))


def is_adapted(task: nn.Module) -> bool:
    return any(isinstance(part, LowRank) for part in task.modules())


def adapter_names(task: nn.Module) -> set[str]:
    """The names of the parameters that adapters add to a task."""
    return {
        f"{path}.{name}" for path, part in task.named_modules() if isinstance(part, LowRank) for name in ("down", "up")
    }


def merge(task: nn.Module) -> None:
    """Fold every adapter into the weight of the map it adapts."""
    for part in list(task.modules()):
        for name, child in list(part.named_children()):
            if isinstance(child, LowRank):
                setattr(part, name, child.merged())


def own_weights(task: nn.Module, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights that a run saves: all of them, or, with adapters, only the trained ones. The base run has the
    others."""
    if not is_adapted(task):
        return dict(weights)
    frozen = {name for name, parameter in task.named_parameters() if not parameter.requires_grad}
    return {name: tensor for name, tensor in weights.items() if name not in frozen}


ADAPTERS: dict[str, Any] = {"lora": LowRank}
