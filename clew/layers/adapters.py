"""Adapters: small maps beside those of a body that stays as it is. Members of ADAPTERS are built as `A(linear, *, options)`."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.core.config import Part, build_part, part_name, part_options
from clew.core.errors import UserError, unknown
from clew.layers.attention import CrossAttention, SelfAttention
from clew.layers.feedforward import FeedForward

ADAPTABLE = ("query", "key", "value", "output", "inner", "gate", "outer")
"""The maps of attention and of networks that may be adapted, by name."""
USUAL = ["query", "value"]
"""Those that are adapted unless told (Hu et al. 2021, section 7.1)."""


class LowRank(nn.Linear):
    """Low-rank adaptation (Hu et al. 2021).

        y = W x + b + (alpha / rank) U D dropout(x)        D (rank, inputs), U (outputs, rank)

    W and b stay as they are. U starts at 0, so that nothing is changed at first.
    """

    def __init__(self, linear: nn.Linear, *, rank: int = 8, alpha: float = 16.0, dropout: float = 0.0, targets: list[str] | None = None):
        """`targets` is for `adapt`, which says which maps are to be adapted."""
        if rank < 1:
            raise UserError(f"the rank of an adapter ({rank}) must be at least 1; set transfer.adapter.rank")
        if not 0 <= dropout < 1:
            raise UserError(f"an adapter's dropout ({dropout}) must be at least 0 and below 1; set transfer.adapter.dropout")
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
    """Puts an adapter into the place of every map that it is for, in a body or a part of one; how many there are."""
    targets = part_options(adapter).get("targets", USUAL)
    there = list(adaptable(body))
    known = sorted({name for _, name in there}, key=ADAPTABLE.index)
    if not known:
        raise UserError(
            f"transfer.adapter={part_name(adapter)} is for the maps ({', '.join(ADAPTABLE)}), and this body has none of them; "
            "take transfer.freeze instead"
        )
    if not targets:
        raise UserError(f"transfer.adapter.targets is empty; name some of {', '.join(known)}")
    for target in targets:
        if target not in known:
            raise unknown("map for transfer.adapter.targets", target, known)
    chosen = [(part, name) for part, name in there if name in targets]
    for part, name in chosen:
        setattr(part, name, build_part("adapter", adapter, ADAPTERS, getattr(part, name)))
    return len(chosen)


def adaptable(body: nn.Module) -> Iterator[tuple[nn.Module, str]]:
    """Every map that may be adapted: the part that has it, and its name there."""
    for part in body.modules():
        if isinstance(part, (SelfAttention, CrossAttention, FeedForward)):
            yield from ((part, name) for name in ADAPTABLE if isinstance(getattr(part, name, None), nn.Linear))


def is_adapted(task: nn.Module) -> bool:
    return any(isinstance(part, LowRank) for part in task.modules())


def adapter_names(task: nn.Module) -> set[str]:
    """The names of what adapters add to a task's parameters."""
    return {f"{path}.{name}" for path, part in task.named_modules() if isinstance(part, LowRank) for name in ("down", "up")}


def merge(task: nn.Module) -> None:
    """Folds every adapter into the map that it stands beside."""
    for part in list(task.modules()):
        for name, child in list(part.named_children()):
            if isinstance(child, LowRank):
                setattr(part, name, child.merged())


def own_weights(task: nn.Module, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What of a task's weights belongs to its run: all, or where it is adapted all that is trained, the rest being another run's."""
    if not is_adapted(task):
        return dict(weights)
    frozen = {name for name, parameter in task.named_parameters() if not parameter.requires_grad}
    return {name: tensor for name, tensor in weights.items() if name not in frozen}


ADAPTERS: dict[str, Any] = {"lora": LowRank}
