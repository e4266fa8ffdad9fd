"""A mixed stack: any mixer in any layer, so that one model can combine and compare recurrence, attention and
convolution."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from clew.core.config import ModelSection, Part, build_part, check_part, one_of, options_of, part_name
from clew.core.errors import UserError
from clew.core.types import Source
from clew.layers.attending.heads import Heads, keep_heads
from clew.layers.attention import SelfAttention
from clew.layers.cells import CELLS
from clew.layers.convolution import Convolution
from clew.layers.feedforward import FeedForward
from clew.layers.norms import NORMS
from clew.layers.positions import POSITIONS
from clew.layers.recurrent import Bidirectional, Recurrent
from clew.layers.scores import SCORES
from clew.layers.sequence import SequenceLayer, Stack
from clew.layers.wiring import WIRINGS
from clew.models.body import Body
from clew.models.gpt import build_positions


def attention_mixer(
    dim: int,
    *,
    num_heads: int = 4,
    num_kv_heads: int | None = None,
    window: int | None = None,
    score: Part = "scaled",
    position: Part = "rotary",
    causal: bool = True,
    bias: bool = True,
    dropout: float = 0.0,
) -> SequenceLayer:
    head_dim, name = max(dim // num_heads, 1), part_name(position)
    added, in_layers = build_positions(position, dim, num_heads, head_dim, 1)
    if added is not None and name != "none":
        raise UserError(
            f"position '{name}' is added to the embedding, not inside a layer; write model.position={name} and give the"
            " layer none"
        )
    parts = {"score": build_part("score", score, SCORES, head_dim, head_dim), "position": in_layers()}
    return SelfAttention(
        dim, num_heads, num_kv_heads=num_kv_heads, window=window, causal=causal, bias=bias, dropout=dropout, **parts
    )


def convolution_mixer(dim: int, *, width: int = 3, causal: bool = True) -> SequenceLayer:
    return Convolution(dim, dim, width=width, causal=causal)


def feedforward_mixer(
    dim: int, *, hidden_dim: int | None = None, activation: str = "gelu", bias: bool = True, dropout: float = 0.0
) -> SequenceLayer:
    return FeedForward(dim, hidden_dim=hidden_dim, activation=activation, bias=bias, dropout=dropout)


MIXERS: dict[str, Callable[..., SequenceLayer]] = {
    "attention": attention_mixer,
    "convolution": convolution_mixer,
    "feedforward": feedforward_mixer,
}


def check_layers(layers: Any) -> Any:
    if not isinstance(layers, list) or not layers:
        raise UserError("layers takes a list with at least one layer, such as [lstm, {name: attention, window: 64}]")
    return [check_part("layer", layer, {**CELLS, **MIXERS}) for layer in layers]


class MixedConfig(ModelSection):
    """A list of layers, each a cell or a mixer by name, with options."""

    family: Literal["mixed"] = "mixed"
    layers: Annotated[list[Part], BeforeValidator(check_layers)] = ["lstm", "attention", "feedforward"]
    dim: int = Field(256, ge=1)
    heads: Heads = None
    position: Annotated[Part, one_of("position", POSITIONS)] = Field(
        "none", description="position encoding of the embedding; attention layers have their own"
    )
    max_length: int = Field(1024, ge=1, description="number of positions, if they are learnt")
    wiring: Annotated[Part, one_of("wiring", WIRINGS)] = "pre_norm"
    norm: Annotated[Part, one_of("norm", NORMS)] = "layer"
    dropout: float = Field(0.0, ge=0, lt=1)


def build_mixed(config: MixedConfig, source: Source) -> Body:
    dim = config.dim
    position, _ = build_positions(config.position, dim, 1, dim, config.max_length)
    if position is None:
        name = part_name(config.position)
        raise UserError(
            f"{name} positions act inside attention layers: write model.layers=[{{name: attention, position: {name}}},"
            " ...], and leave model.position for what the embedding adds"
        )
    layers: list[SequenceLayer] = []
    for part in config.layers:
        layer = build_mixer(part, dim)
        layers.append(
            build_part("wiring", config.wiring, WIRINGS, dim, layer, norm=config.norm, dropout=config.dropout)
        )
        dim = layers[-1].dim
    embedding = source.embedding(config.dim, position=position, dropout=config.dropout)
    body = Body(embedding, Stack(layers), build_part("norm", config.norm, NORMS, dim))
    keep_heads(body, config.heads)
    return body


def build_mixer(part: Part, dim: int, *, causal: bool = True, **defaults: Any) -> SequenceLayer:
    """A cell over time, or a mixer, of width `dim`. `defaults` apply to options that the mixer has and `part` does not
    set. Without `causal`, a cell becomes two of half the width that read in opposite directions."""
    if part_name(part) not in CELLS:
        options = options_of(MIXERS[part_name(part)])
        defaults = {name: value for name, value in {**defaults, "causal": causal}.items() if name in options}
        layer: SequenceLayer = build_part("layer", part, MIXERS, dim, **defaults)
        return layer
    if causal:
        return Recurrent(build_part("layer", part, CELLS, dim, dim))
    if dim % 2:
        raise UserError(
            f"a {part_name(part)} layer of an encoder gives half of its width to each direction, so dim ({dim}) must be"
            " even"
        )
    return Bidirectional(*(Recurrent(build_part("layer", part, CELLS, dim, dim // 2)) for _ in range(2)))
