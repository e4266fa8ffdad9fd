"""The attention heads of a body: how they are called, and what is left of a body that keeps some of them.

A head is called LAYER.HEAD, both from 1: `2.5` is the fifth head of the second layer that attends. In a model that reads and writes these
are the encoder's; `decoder.2.5` is one of the decoder's own, `cross.2.5` one that looks at the source.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn

from clew.core.errors import UserError, few_of, shown, unknown
from clew.layers.attention import Attention, CrossAttention, SelfAttention
from clew.layers.hard_attention import HardAttention

OWN, DECODER, CROSS = "", "decoder.", "cross."
"""How the name of a head begins: of the encoder, or of the only body; of a decoder; of what looks from the decoder at the source."""

Heads = Annotated[
    dict[str, list[int]] | None,
    Field(
        description='the heads that layers keep, from 1, such as {"2": [1, 4], "cross.1": []}; all of a layer that is not named. '
        "`clew prune` writes it"
    ),
]
"""A field of a family whose layers may have lost some of their heads. Layers and heads are counted as they were before."""


class AttendingLayer(NamedTuple):
    """A layer that attends: `layer` has `num_heads` heads, and `attention`, at a module's path, is where they look."""

    kind: str
    number: int
    path: str
    layer: nn.Module
    attention: Attention
    num_heads: int

    @property
    def name(self) -> str:
        return f"{self.kind}{self.number}"

    @property
    def heads(self) -> list[str]:
        return [f"{self.name}.{head}" for head in range(1, self.num_heads + 1)]

    @property
    def num_pruned(self) -> int:
        """Heads that the layer was built with and lost."""
        return getattr(self.layer, "num_pruned", 0)

    @property
    def weights(self) -> str:
        """The path of the tap that shows the weights (batch, heads, query, key); of hard attention, where it looked."""
        return f"{self.path}.{'places' if isinstance(self.attention, HardAttention) else 'weights'}"


def attending_layers(model: nn.Module) -> list[AttendingLayer]:
    """Every layer of a body or a task that attends, from the lowest; those of a body that only the embedding reads are no part of it."""
    parts = dict(model.named_modules())
    owners: dict[nn.Module, nn.Module] = {
        part.attention: part for part in parts.values() if isinstance(part, (SelfAttention, CrossAttention))
    }
    found: list[AttendingLayer] = []
    numbers = dict.fromkeys((OWN, DECODER, CROSS), 0)
    for path, part in parts.items():
        inside = path.split(".")
        if not isinstance(part, Attention) or "embedding" in inside:
            continue
        layer = owners.get(part, part)
        kind = OWN if "decoder" not in inside else DECODER if isinstance(layer, SelfAttention) else CROSS
        numbers[kind] += 1
        found.append(AttendingLayer(kind, numbers[kind], path, layer, part, getattr(layer, "num_heads", 1)))
    return found


def grouped(model: nn.Module, names: Iterable[str]) -> list[tuple[AttendingLayer, list[int]]]:
    """Every layer that attends with the heads, counted from 0, that the names are of. A name that is no head's is refused."""
    names = [names] if isinstance(names, str) else list(names)
    layers = attending_layers(model)
    known = [name for layer in layers for name in layer.heads]
    for name in names:
        if not known:
            raise UserError(f"the model has no attention, and so no head {name!r}")
        if name not in known:
            raise unknown("head", name, known)
    return [(layer, [place for place, head in enumerate(layer.heads) if head in names]) for layer in layers]


def keep_heads(body: nn.Module, kept: Mapping[str, Sequence[int]] | None) -> None:
    """Cuts a body that was built whole down to the heads that its config names."""
    layers = {layer.name: layer for layer in attending_layers(body) if isinstance(layer.layer, (SelfAttention, CrossAttention))}
    for name, heads in (kept or {}).items():
        if name not in layers:
            raise unknown("layer in model.heads", name, layers)
        there = layers[name].num_heads
        if any(not 1 <= head <= there for head in heads) or len(set(heads)) < len(heads):
            raise UserError(f"model.heads of layer {name} takes numbers from 1 to {there}, each once, not {shown(list(heads))}")
        cut_to(layers[name].layer, sorted(head - 1 for head in heads))


def cut_to(layer: nn.Module, heads: list[int]) -> None:
    """Leaves a layer so many of its heads, counted from 0: rows of what they ask, offer and hand on, and columns of what joins them.

    Where heads share keys and values, those are kept that a kept head reads.
    """
    assert isinstance(layer, (SelfAttention, CrossAttention))
    cut_rows(layer.query, heads, layer.head_dim)
    cut_columns(layer.output, heads, layer.head_dim)
    reads = heads
    if isinstance(layer, SelfAttention):
        size = layer.num_heads // layer.num_kv_heads if layer.num_kv_heads else 1
        reads = [head // size for head in heads] if layer.groups is None else layer.groups[heads].tolist()
        layer.num_kv_heads = len(set(reads))
        if (position := layer.attention.position) is not None:
            position.keep_heads(heads)
    offered = sorted(set(reads))
    cut_rows(layer.key, offered, layer.head_dim)
    cut_rows(layer.value, offered, layer.head_dim)
    layer.num_pruned += layer.num_heads - len(heads)
    layer.num_heads = len(heads)
    if isinstance(layer, SelfAttention):
        places = [offered.index(read) for read in reads]
        size = len(reads) // max(len(offered), 1)
        is_even = places == [place for place in range(len(offered)) for _ in range(size)]
        layer.groups = None if is_even else torch.tensor(places, device=layer.key.weight.device)
        layer.lay_together()


def cut_rows(linear: nn.Linear, heads: list[int], width: int) -> None:
    rows = places_of(heads, width, linear.weight)
    linear.weight = nn.Parameter(linear.weight.detach()[rows], linear.weight.requires_grad)
    if linear.bias is not None:
        linear.bias = nn.Parameter(linear.bias.detach()[rows], linear.bias.requires_grad)
    linear.out_features = len(rows)


def cut_columns(linear: nn.Linear, heads: list[int], width: int) -> None:
    columns = places_of(heads, width, linear.weight)
    linear.weight = nn.Parameter(linear.weight.detach()[:, columns], linear.weight.requires_grad)
    linear.in_features = len(columns)


def places_of(heads: list[int], width: int, like: Tensor) -> Tensor:
    return (torch.tensor(heads, dtype=torch.long)[:, None] * width + torch.arange(width)).flatten().to(like.device)


def describe_kept(kept: Mapping[str, Sequence[int]]) -> str:
    """`layer 1: 2 3; layer cross.1: none`."""
    return few_of([f"layer {name}: {' '.join(map(str, heads)) or 'none'}" for name, heads in kept.items()])
