"""Attention heads: their names, and pruning a body to some of them.

A head is called LAYER.HEAD, both counted from 1: `2.5` is the fifth head of the second attention layer. In an
encoder-decoder these are the encoder's; `decoder.2.5` is a head of the decoder's self-attention, `cross.2.5` one of its
cross-attention.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn

from clew.core.errors import UserError, shown, unknown
from clew.layers.attending.cross_attention import CrossAttention
from clew.layers.attending.hard_attention import HardAttention
from clew.layers.attention import Attention, SelfAttention

OWN, DECODER, CROSS = "", "decoder.", "cross."
"""The prefixes of head names: of an encoder or an only body; of a decoder's self-attention; of its cross-attention."""

Heads = Annotated[
    dict[str, list[int]] | None,
    Field(
        description=(
            'the heads to keep in each layer, from 1, such as {"2": [1, 4], "cross.1": []}; a layer that is not named'
            " keeps all. `clew runs prune` writes it"
        )
    ),
]
"""A config field for families whose layers may be pruned. Layers and heads keep the numbers they had before pruning."""


class AttendingLayer(NamedTuple):
    """An attention layer: `layer` has `num_heads` heads, and `path` leads to its module `attention`."""

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
        """The number of heads that pruning removed."""
        return getattr(self.layer, "num_pruned", 0)

    @property
    def weights(self) -> str:
        """The path of the tap that shows the weights (batch, heads, query, key), or for hard attention the drawn
        places."""
        return f"{self.path}.{'places' if isinstance(self.attention, HardAttention) else 'weights'}"


def attending_layers(model: nn.Module) -> list[AttendingLayer]:
    """All attention layers of a body or a task, from the lowest up, without those of a body inside the embedding."""
    parts = dict(model.named_modules())
    owners: dict[nn.Module, nn.Module] = {
        part.attention: part for part in parts.values() if isinstance(part, (SelfAttention, CrossAttention))
    }
    layers: list[AttendingLayer] = []
    numbers = dict.fromkeys((OWN, DECODER, CROSS), 0)
    for path, part in parts.items():
        inside = path.split(".")
        if not isinstance(part, Attention) or "embedding" in inside:
            continue
        layer = owners.get(part, part)
        kind = OWN if "decoder" not in inside else DECODER if isinstance(layer, SelfAttention) else CROSS
        numbers[kind] += 1
        layers.append(AttendingLayer(kind, numbers[kind], path, layer, part, getattr(layer, "num_heads", 1)))
    return layers


def grouped(model: nn.Module, names: Iterable[str]) -> list[tuple[AttendingLayer, list[int]]]:
    """Every attention layer with the indices, from 0, of its heads among `names`. Refuse a name that is not a
    head's."""
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
    """Prune a body, built with all heads, to the heads that its config names.

    Heads are counted before pruning, so that ALiBi's slopes, groups of keys and imported names stay right in every
    family.
    """
    layers = {
        layer.name: layer
        for layer in attending_layers(body)
        if isinstance(layer.layer, (SelfAttention, CrossAttention))
    }
    for name, heads in (kept or {}).items():
        if name not in layers:
            raise unknown("layer in model.heads", name, layers)
        num_heads = layers[name].num_heads
        if any(not 1 <= head <= num_heads for head in heads) or len(set(heads)) < len(heads):
            raise UserError(
                f"model.heads of layer {name} takes numbers from 1 to {num_heads}, each once, not {shown(list(heads))}"
            )
        cut_to(layers[name].layer, sorted(head - 1 for head in heads))


def cut_to(layer: nn.Module, heads: list[int]) -> None:
    """Keep some of a layer's heads, counted from 0: rows of its query, key and value maps, and columns of its output
    map.

    Shared keys and values remain if a kept head reads them. Groups may become uneven; `groups` then maps heads to keys.
    """
    assert isinstance(layer, (SelfAttention, CrossAttention))
    cut_rows(layer.query, heads, layer.head_dim)
    cut_columns(layer.output, heads, layer.head_dim)
    key_heads = heads
    if isinstance(layer, SelfAttention):
        size = layer.num_heads // layer.num_kv_heads if layer.num_kv_heads else 1
        key_heads = [head // size for head in heads] if layer.groups is None else layer.groups[heads].tolist()
        layer.num_kv_heads = len(set(key_heads))
        if (position := layer.attention.position) is not None:
            position.keep_heads(heads)
    kept_key_heads = sorted(set(key_heads))
    cut_rows(layer.key, kept_key_heads, layer.head_dim)
    cut_rows(layer.value, kept_key_heads, layer.head_dim)
    layer.num_pruned += layer.num_heads - len(heads)
    layer.num_heads = len(heads)
    if isinstance(layer, SelfAttention):
        places = [kept_key_heads.index(key_head) for key_head in key_heads]
        size = len(key_heads) // max(len(kept_key_heads), 1)
        is_even = places == [place for place in range(len(kept_key_heads)) for _ in range(size)]
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
