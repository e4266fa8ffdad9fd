"""GPT-2 (Radford et al. 2019): a causal Transformer with the norm before each sublayer."""

import math
from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import Field
from torch import nn

from clew.core.config import ModelSection, Part, build_part, one_of, part_name, part_options
from clew.core.types import Source
from clew.layers.attending.heads import Heads, keep_heads
from clew.layers.attention import SelfAttention
from clew.layers.feedforward import FeedForward
from clew.layers.norms import LayerNorm
from clew.layers.positions import POSITIONS, Position
from clew.layers.scores import SCORES
from clew.layers.sequence import Stack
from clew.layers.wiring import PreNorm
from clew.models.body import MOST_LAYERS, Body, normal_init


class GPTConfig(ModelSection):
    """Blocks of causal self-attention and a GELU network, with learnt positions."""

    family: Literal["gpt"] = "gpt"
    dim: int = Field(384, ge=1)
    num_layers: int = Field(6, ge=1, le=MOST_LAYERS)
    num_heads: int = Field(6, ge=1)
    heads: Heads = None
    max_length: int = Field(256, ge=1, description="number of positions, if they are learnt")
    position: Annotated[Part, one_of("position", POSITIONS)] = "learned"
    score: Annotated[Part, one_of("score", SCORES)] = "scaled"
    window: int | None = Field(None, ge=0, description="how many positions back attention reaches; default: all")
    hidden_dim: int | None = Field(None, ge=1, description="width inside the networks; default: 4 dim")
    activation: str = Field("gelu_tanh", description="relu, gelu, gelu_tanh, silu, tanh, swiglu")
    norm_eps: float = Field(1e-5, gt=0)
    bias: bool = True
    dropout: float = Field(0.0, ge=0, lt=1, description="on every layer's output, and the default of the two below")
    embedding_dropout: float | None = Field(None, ge=0, lt=1)
    attention_dropout: float | None = Field(None, ge=0, lt=1, description="on attention weights")


def build_gpt(config: GPTConfig, source: Source) -> Body:
    dim, heads = config.dim, config.num_heads
    position, in_layers = build_positions(config.position, dim, heads, max(dim // heads, 1), config.max_length)
    embedding = source.embedding(dim, position=position, dropout=dropout_or(config.embedding_dropout, config.dropout))
    attention_dropout = dropout_or(config.attention_dropout, config.dropout)
    norm = {"name": "layer", "eps": config.norm_eps, "bias": config.bias}
    layers: list[PreNorm] = []
    for _ in range(config.num_layers):
        score = build_part("score", config.score, SCORES, max(dim // heads, 1), max(dim // heads, 1))
        attention = SelfAttention(
            dim,
            heads,
            window=config.window,
            score=score,
            position=in_layers(),
            bias=config.bias,
            dropout=attention_dropout,
        )
        network = FeedForward(dim, hidden_dim=config.hidden_dim, activation=config.activation, bias=config.bias)
        layers += [
            PreNorm(dim, attention, norm=norm, dropout=config.dropout),
            PreNorm(dim, network, norm=norm, dropout=config.dropout),
        ]
    body = Body(embedding, Stack(layers), LayerNorm(dim, eps=config.norm_eps, bias=config.bias))
    init_transformer(body, config.num_layers)
    keep_heads(body, config.heads)
    return body


def dropout_or(dropout: float | None, otherwise: float) -> float:
    return otherwise if dropout is None else dropout


def build_positions(
    part: Part, dim: int, num_heads: int, head_dim: int, max_length: int
) -> tuple[Position | None, Callable[[], Position | None]]:
    """The position encoding of the embedding, and a function that builds one for each attention layer. One of the two
    is always None."""
    if part_name(part) == "learned":
        part = {"name": "learned", "max_length": max_length, **part_options(part)}

    def build() -> Position:
        position: Position = build_part("position", part, POSITIONS, dim, num_heads, head_dim)
        return position

    encoding = build()
    return (None, build) if encoding.in_layers else (encoding, lambda: None)


def init_transformer(body: nn.Module, num_layers: int) -> None:
    """Draw matrices with standard deviation 0.02, those that write to the residual stream with 0.02 / sqrt(2
    num_layers)."""
    # The variance of the residual stream then does not grow with depth.
    normal_init(body, 0.02)
    for part in body.modules():
        if isinstance(part, SelfAttention):
            nn.init.normal_(part.output.weight, std=0.02 / math.sqrt(2 * num_layers))
        if isinstance(part, FeedForward):
            nn.init.normal_(part.outer.weight, std=0.02 / math.sqrt(2 * num_layers))
