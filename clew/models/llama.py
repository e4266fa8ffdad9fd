"""Llama (Touvron et al. 2023): a causal Transformer with RMSNorm, rotary positions, SwiGLU, grouped-query attention and
no biases."""

from typing import Annotated, Literal

from pydantic import Field

from clew.core.config import ModelSection, Part, one_of
from clew.core.types import Source
from clew.layers.attending.heads import Heads, keep_heads
from clew.layers.attending.rotary_scaling import SCALINGS
from clew.layers.attention import SelfAttention
from clew.layers.feedforward import FeedForward
from clew.layers.norms import RMSNorm
from clew.layers.positions import Rotary
from clew.layers.sequence import Stack
from clew.layers.wiring import PreNorm
from clew.models.body import MOST_LAYERS, Body
from clew.models.gpt import dropout_or, init_transformer


class LlamaConfig(ModelSection):
    """Blocks of causal self-attention with rotary positions and a gated network."""

    family: Literal["llama"] = "llama"
    dim: int = Field(384, ge=1)
    num_layers: int = Field(6, ge=1, le=MOST_LAYERS)
    num_heads: int = Field(6, ge=1)
    heads: Heads = None
    num_kv_heads: int | None = Field(
        None, ge=1, description="number of key and value heads, each shared by a group of query heads"
    )
    head_dim: int | None = Field(None, ge=1, description="width of a head; default: dim / num_heads")
    hidden_dim: int | None = Field(None, ge=1, description="width of the gated network; default: 8/3 of dim")
    rotary_base: float = Field(10000.0, gt=0)
    rotary_scaling: Annotated[Part, one_of("rotary scaling", SCALINGS)] = Field(
        "none",
        description=(
            "for texts longer than those of the first training: linear, dynamic, llama3, yarn, with options such as"
            " factor"
        ),
    )
    max_length: int | None = Field(
        None, ge=1, description="the longest text the model is made for; longer ones are not refused"
    )
    norm_eps: float = Field(1e-5, gt=0)
    attention_bias: bool = False
    network_bias: bool = False
    dropout: float = Field(
        0.0, ge=0, lt=1, description="after the embedding, on every layer's output, and by default on attention weights"
    )
    attention_dropout: float | None = Field(None, ge=0, lt=1, description="on attention weights")


def build_llama(config: LlamaConfig, source: Source) -> Body:
    dim, heads = config.dim, config.num_heads
    hidden_dim = config.hidden_dim or 8 * ((8 * dim // 3 + 7) // 8)
    norm = {"name": "rms", "eps": config.norm_eps}
    layers: list[PreNorm] = []
    for _ in range(config.num_layers):
        position = Rotary(
            dim, heads, config.head_dim or max(dim // heads, 1), base=config.rotary_base, scaling=config.rotary_scaling
        )
        attention = SelfAttention(
            dim,
            heads,
            num_kv_heads=config.num_kv_heads,
            head_dim=config.head_dim,
            position=position,
            bias=config.attention_bias,
            dropout=dropout_or(config.attention_dropout, config.dropout),
        )
        network = FeedForward(dim, hidden_dim=hidden_dim, activation="swiglu", bias=config.network_bias)
        layers += [
            PreNorm(dim, attention, norm=norm, dropout=config.dropout),
            PreNorm(dim, network, norm=norm, dropout=config.dropout),
        ]
    body = Body(source.embedding(dim, dropout=config.dropout), Stack(layers), RMSNorm(dim, eps=config.norm_eps))
    init_transformer(body, config.num_layers)
    keep_heads(body, config.heads)
    return body
