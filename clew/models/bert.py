"""BERT (Devlin et al. 2019): a Transformer encoder over tokens, learnt positions and segments. RoBERTa and XLM-R have
no second segment, DistilBERT has none."""

from typing import Annotated, Literal

from pydantic import Field

from clew.core.config import ModelSection, Part, one_of
from clew.core.types import Source
from clew.layers.attending.heads import Heads, keep_heads
from clew.layers.attention import SelfAttention
from clew.layers.feedforward import FeedForward
from clew.layers.norms import LayerNorm
from clew.layers.positions import POSITIONS
from clew.layers.sequence import Stack
from clew.layers.wiring import PostNorm
from clew.models.body import MOST_LAYERS, Body, normal_init
from clew.models.gpt import build_positions


class BERTConfig(ModelSection):
    """Blocks of self-attention over the whole text and a GELU network, each followed by a norm.

    The defaults are small; base has dim 768, num_layers 12, num_heads 12 and max_length 512, large has 1024, 24, 16 and
    512.
    """

    family: Literal["bert"] = "bert"
    dim: int = Field(256, ge=1)
    num_layers: int = Field(4, ge=1, le=MOST_LAYERS)
    num_heads: int = Field(4, ge=1)
    heads: Heads = None
    hidden_dim: int | None = Field(None, ge=1, description="width inside the networks; default: 4 dim")
    activation: str = Field("gelu", description="relu, gelu, gelu_tanh, silu, tanh, swiglu")
    position: Annotated[Part, one_of("position", POSITIONS)] = "learned"
    max_length: int = Field(512, ge=1, description="number of positions, if they are learnt")
    num_segments: int = Field(2, ge=0, description="number of segments; each adds a vector of its own to its tokens")
    norm_eps: float = Field(1e-12, gt=0)
    dropout: float = Field(0.1, ge=0, lt=1, description="after the embedding and on every layer's output")
    attention_dropout: float = Field(0.1, ge=0, lt=1, description="on attention weights")


def build_bert(config: BERTConfig, source: Source) -> Body:
    dim, heads = config.dim, config.num_heads
    position, in_layers = build_positions(config.position, dim, heads, max(dim // heads, 1), config.max_length)
    norm = {"name": "layer", "eps": config.norm_eps}
    embedding = source.embedding(
        dim,
        position=position,
        num_segments=config.num_segments,
        norm=LayerNorm(dim, eps=config.norm_eps),
        dropout=config.dropout,
    )
    layers: list[PostNorm] = []
    for _ in range(config.num_layers):
        attention = SelfAttention(dim, heads, causal=False, position=in_layers(), dropout=config.attention_dropout)
        network = FeedForward(dim, hidden_dim=config.hidden_dim, activation=config.activation)
        layers += [
            PostNorm(dim, attention, norm=norm, dropout=config.dropout),
            PostNorm(dim, network, norm=norm, dropout=config.dropout),
        ]
    body = Body(embedding, Stack(layers))
    normal_init(body, 0.02)
    keep_heads(body, config.heads)
    return body
