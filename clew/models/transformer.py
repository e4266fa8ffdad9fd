"""The Transformer (Vaswani et al. 2017): an encoder and a decoder of self-attention; the decoder also attends to the
encoder's output.

Either half may be a list of other layers, such as a recurrent encoder for an attentive decoder, or the reverse (Chen et
al. 2018)."""

from functools import partial
from itertools import chain
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field
from torch import nn

from clew.core.config import ModelSection, Part, build_part, check_part, one_of, part_name
from clew.core.errors import UserError, shown
from clew.core.types import Source
from clew.layers.attending.cross_attention import CrossAttention
from clew.layers.attending.heads import Heads, keep_heads
from clew.layers.attention import SelfAttention
from clew.layers.cells import CELLS
from clew.layers.feedforward import FeedForward
from clew.layers.norms import NORMS
from clew.layers.positions import POSITIONS
from clew.layers.scores import SCORES
from clew.layers.sequence import SequenceLayer, Stack
from clew.layers.wiring import WIRINGS
from clew.models.body import MOST_LAYERS, Body
from clew.models.encoder_decoder import EncoderDecoder, embeddings
from clew.models.gpt import build_positions
from clew.models.mixed import MIXERS, build_mixer


def cross_attention_mixer(
    dim: int, memory_dim: int, *, num_heads: int = 4, score: Part = "scaled", bias: bool = True, dropout: float = 0.0
) -> SequenceLayer:
    built = build_part("score", score, SCORES, max(dim // num_heads, 1), max(dim // num_heads, 1))
    return CrossAttention(dim, num_heads, memory_dim=memory_dim, score=built, bias=bias, dropout=dropout)


CROSS = {"cross_attention": cross_attention_mixer}


def layers_of(half: str, also: dict[str, Any]) -> BeforeValidator:
    """Validate a number of the usual layers, or a list of cells and mixers by name; `also` are the mixers that only
    this half has."""

    def check(layers: Any) -> Any:
        if layers is None or (isinstance(layers, int) and not isinstance(layers, bool) and 1 <= layers <= MOST_LAYERS):
            return layers
        if not isinstance(layers, list) or not layers:
            known = (
                "[lstm, cross_attention, feedforward]" if also else "[lstm, {name: attention, window: 64}, feedforward]"
            )
            raise UserError(
                f"{half}_layers takes a number of layers, 1 to {MOST_LAYERS}, or a list of them such as {known}, not"
                f" {shown(layers)}"
            )
        return [check_part("layer", layer, {**CELLS, **MIXERS, **also}) for layer in layers]

    return BeforeValidator(check)


class TransformerConfig(ModelSection):
    """An encoder of self-attention, and a decoder of self- and cross-attention.

    The defaults are the base model; big has dim 1024, num_heads 16 and dropout 0.3.
    """

    family: Literal["transformer"] = "transformer"
    dim: int = Field(512, ge=1)
    num_heads: int = Field(8, ge=1)
    heads: Heads = None
    num_layers: int = Field(6, ge=1, le=MOST_LAYERS, description="layers of the encoder and of the decoder, by default")
    encoder_layers: Annotated[int | list[Part] | None, layers_of("encoder", {})] = Field(
        None, description="a number, or a list of layers: cells and mixers by name, each with the wiring below"
    )
    decoder_layers: Annotated[int | list[Part] | None, layers_of("decoder", CROSS)] = Field(
        None, description="a number, or a list of layers that includes cross_attention"
    )
    hidden_dim: int | None = Field(None, ge=1, description="width inside the position-wise networks; default: 4 dim")
    activation: str = Field("relu", description="relu, gelu, gelu_tanh, silu, tanh, swiglu")
    position: Annotated[Part, one_of("position", POSITIONS)] = Field(
        "sinusoidal", description="added to the embeddings, or inside every self-attention"
    )
    max_length: int = Field(1024, ge=1, description="number of source and target positions, if they are learnt")
    score: Annotated[Part, one_of("score", SCORES)] = "scaled"
    wiring: Annotated[Part, one_of("wiring", WIRINGS)] = Field(
        "post_norm", description="post_norm as published, or pre_norm"
    )
    norm: Annotated[Part, one_of("norm", NORMS)] = "layer"
    bias: bool = Field(True, description="biases in attention and in the networks")
    shared_embeddings: bool = Field(
        False, description="one table for source and target; with task.tied for the output too, as published"
    )
    scaled_embeddings: bool = Field(True, description="multiplies embeddings by sqrt(dim)")
    dropout: float = Field(0.1, ge=0, lt=1, description="after embeddings and on every layer's output")
    attention_dropout: float = Field(0.0, ge=0, lt=1, description="on attention weights")
    network_dropout: float = Field(0.0, ge=0, lt=1, description="inside the position-wise networks")


def build_transformer(
    config: TransformerConfig, target: Source, source: Source | None = None, encoder: Body | None = None
) -> EncoderDecoder:
    """The default of `source` is `target`. A given `encoder` replaces the one that would be built."""
    dim = config.dim
    positions = [
        build_positions(config.position, dim, config.num_heads, max(dim // config.num_heads, 1), config.max_length)[0]
        for _ in "12"
    ]
    reads, writes = embeddings(
        target,
        source,
        dim,
        shared=config.shared_embeddings,
        source_position=positions[0],
        position=positions[1],
        scaled=config.scaled_embeddings,
        dropout=config.dropout,
    )
    reading = listed(config.encoder_layers, config.num_layers, ["attention", "feedforward"])
    writing = listed(config.decoder_layers, config.num_layers, ["attention", "cross_attention", "feedforward"])
    if not any(part_name(part) == "cross_attention" for part in writing):
        raise UserError(
            "model.decoder_layers has no cross_attention, so nothing of the source would reach the decoder; add one"
        )
    reader = build_half(config, reading, reads, memory_dim=None) if encoder is None else encoder
    decoder = build_half(config, writing, writes, memory_dim=reader.dim)
    init_xavier(*([reader] if encoder is None else []), decoder)
    body = EncoderDecoder(reader, decoder)
    keep_heads(body, config.heads)
    return body


def listed(layers: int | list[Part] | None, num_layers: int, block: list[Part]) -> list[Part]:
    return layers if isinstance(layers, list) else block * (layers or num_layers)


def build_half(config: TransformerConfig, parts: list[Part], embedding: Any, memory_dim: int | None) -> Body:
    """An encoder, or, with a `memory_dim` to attend to, a decoder."""
    in_layers = embedding.position is None
    shared = {"num_heads": config.num_heads, "score": config.score, "bias": config.bias}
    of_attention = {**shared, "dropout": config.attention_dropout, "position": config.position if in_layers else "none"}
    of_network = {
        "hidden_dim": config.hidden_dim,
        "activation": config.activation,
        "bias": config.bias,
        "dropout": config.network_dropout,
    }
    layers: list[SequenceLayer] = []
    dim = config.dim
    for part in parts:
        name = part_name(part)
        if name == "cross_attention":
            layer = build_part("layer", part, CROSS, dim, memory_dim, **shared, dropout=config.attention_dropout)
        else:
            layer = build_mixer(
                part, dim, causal=memory_dim is not None, **(of_network if name == "feedforward" else of_attention)
            )
        layers.append(
            build_part("wiring", config.wiring, WIRINGS, dim, layer, norm=config.norm, dropout=config.dropout)
        )
        dim = layers[-1].dim
    is_normed = part_name(config.wiring) == "post_norm"
    return Body(embedding, Stack(layers), None if is_normed else build_part("norm", config.norm, NORMS, dim))


def init_xavier(*halves: Body) -> None:
    """Draw the matrices of attention and networks by Glorot and Bengio (2010), uniform, with biases 0; embeddings from
    N(0, 1 / dim), which times sqrt(dim) have variance 1. Cells, norms and positions keep their own initialisation."""
    for part in chain.from_iterable(half.modules() for half in halves):
        if isinstance(part, (SelfAttention, CrossAttention, FeedForward)):
            for linear in part.children():
                if isinstance(linear, nn.Linear):
                    nn.init.xavier_uniform_(linear.weight)
                    if linear.bias is not None:
                        nn.init.zeros_(linear.bias)
    for half in halves:
        half.embedding.draw(partial(nn.init.normal_, std=half.embedding.dim**-0.5))
