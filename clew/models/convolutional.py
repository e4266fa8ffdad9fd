"""The convolutional encoder-decoder (Gehring et al. 2017): gated convolutions in place of recurrence, attention in
every decoder layer."""

import math
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from clew.core.config import ModelSection, Part, one_of, part_name
from clew.core.errors import UserError
from clew.core.types import Source, State
from clew.layers.convolution import Convolution
from clew.layers.embeddings import Embedding
from clew.layers.feedforward import Linear
from clew.layers.gated_convolution import HALF, GatedConvolution, LookingConvolution
from clew.layers.positions import POSITIONS
from clew.layers.sequence import SequenceLayer, Stack
from clew.layers.wiring import Bypass
from clew.models.body import MOST_LAYERS, Body, BodyState
from clew.models.encoder_decoder import EncoderDecoder, embeddings
from clew.models.gpt import build_positions


class ConvolutionalConfig(ModelSection):
    """An encoder of gated convolutions, and a decoder of gated convolutions with attention."""

    family: Literal["convolutional"] = "convolutional"
    dim: int = Field(256, ge=1, description="width of the convolutions")
    embedding_dim: int = Field(256, ge=1, description="width of the embeddings and of the decoder's output")
    num_layers: int = Field(4, ge=1, le=MOST_LAYERS, description="layers of the encoder, and by default of the decoder")
    decoder_layers: int | None = Field(None, ge=1, le=MOST_LAYERS)
    width: int = Field(3, ge=1, description="window width in positions; odd, since the encoder's windows are centred")
    position: Annotated[Part, one_of("position", POSITIONS)] = "learned"
    max_length: int = Field(1024, ge=1, description="number of source and target positions, if they are learnt")
    shared_embeddings: bool = Field(
        False, description="one table for source and target; with task.tied for the output too"
    )
    dropout: float = Field(
        0.1, ge=0, lt=1, description="after embeddings, on the input of every convolution, and on the decoder's output"
    )


class ConvolutionalEncoder(Body):
    """memory = [z; sqrt(1/2) (z + e)]: keys with context only, values that also have the word. e is the embedding, z
    the output of the layers. The gradient of z is divided by `attentions`, the number of layers that attend to it."""

    def __init__(self, embedding: Embedding, layers: Stack, attentions: int):
        super().__init__(embedding, layers)
        self.attentions = attentions
        self.dim = 2 * layers.dim

    def forward(self, inputs: Any, mask: Tensor | None = None, state: State = None) -> tuple[Tensor, State]:
        x, clock = self.embed(inputs, mask, state)
        z, after = self.layers(x, mask)
        return self.memory(z, x), BodyState(clock, after)

    def levels(self, inputs: Any, mask: Tensor | None = None, state: State = None) -> list[Tensor]:
        x, *middle, z = self.layers.levels(self.embed(inputs, mask, state)[0], mask)[0]
        return [x, *middle, self.memory(z, x)]

    def memory(self, z: Tensor, x: Tensor) -> Tensor:
        z = z / self.attentions + (z - z / self.attentions).detach()
        return torch.cat([z, HALF * (z + x)], -1)


def build_convolutional(config: ConvolutionalConfig, target: Source, source: Source | None = None) -> EncoderDecoder:
    """The default of `source` is `target`. Omits the paper's weight normalisation."""
    dim, embedding_dim, dropout = config.dim, config.embedding_dim, config.dropout
    positions = [
        build_positions(config.position, embedding_dim, 1, embedding_dim, config.max_length)[0] for _ in range(2)
    ]
    if None in positions:
        name = part_name(config.position)
        raise UserError(
            f"{name} positions act inside self-attention, and a convolutional model has none; use learned, sinusoidal"
            " or none"
        )
    reads, writes = embeddings(
        target,
        source,
        embedding_dim,
        shared=config.shared_embeddings,
        source_position=positions[0],
        position=positions[1],
        dropout=dropout,
    )
    num_looking = config.decoder_layers or config.num_layers
    reading: list[SequenceLayer] = [Linear(embedding_dim, dim)]
    reading += [
        GatedConvolution(dim, width=config.width, causal=False, dropout=dropout) for _ in range(config.num_layers)
    ]
    reading.append(Linear(dim, embedding_dim))
    writing: list[SequenceLayer] = [
        Bypass(embedding_dim, Linear(embedding_dim, dim), reads=embedding_dim, keeps=embedding_dim)  # [h; g]
    ]
    writing += [LookingConvolution(dim, embedding_dim, width=config.width, dropout=dropout) for _ in range(num_looking)]
    writing.append(Bypass(dim + embedding_dim, Linear(dim, embedding_dim), reads=dim, keeps=0, dropout=dropout))
    body = EncoderDecoder(ConvolutionalEncoder(reads, Stack(reading), num_looking), Body(writes, Stack(writing)))
    init_by_fan_in(body, dropout)
    return body


def init_by_fan_in(body: nn.Module, dropout: float) -> None:
    """Initialise as in section 3.5, which corrects for dropout, scaling inputs by 1 / (1 - p), and for gates, halving
    standard deviations.

    N(0, (1 - p) / n) for maps of n inputs, N(0, 4 (1 - p) / n) before a gate, N(0, 0.01) for embeddings and positions,
    biases 0.
    """
    for part in body.modules():
        if isinstance(part, Convolution):
            nn.init.normal_(part.weight, std=math.sqrt(4 * (1 - dropout) / part.weight[0].numel()))
        elif isinstance(part, nn.Linear):
            nn.init.normal_(part.weight, std=math.sqrt((1 - dropout) / part.in_features))
            nn.init.zeros_(part.bias)
        elif isinstance(part, Embedding):
            part.draw(lambda table: nn.init.normal_(table, std=0.1))
            for table in [] if part.position is None else part.position.parameters():
                nn.init.normal_(table, std=0.1)
