"""The convolutional encoder-decoder (Gehring et al. 2017): gated windows instead of recurrence, attention in every layer of the decoder."""

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
from clew.layers.wiring import Beside
from clew.models.body import MOST_LAYERS, Body, BodyState
from clew.models.encoder_decoder import EncoderDecoder, embeddings
from clew.models.gpt import build_positions


class ConvolutionalConfig(ModelSection):
    """Gated convolutions that read, gated convolutions with attention that write."""

    family: Literal["convolutional"] = "convolutional"
    dim: int = Field(256, ge=1, description="width of the convolutions")
    embedding_dim: int = Field(256, ge=1, description="width of the embeddings, and of what the output layer reads")
    num_layers: int = Field(4, ge=1, le=MOST_LAYERS, description="of either half unless told")
    decoder_layers: int | None = Field(None, ge=1, le=MOST_LAYERS)
    width: int = Field(3, ge=1, description="positions that a window holds; odd, since the encoder's is centred")
    position: Annotated[Part, one_of("position", POSITIONS)] = "learned"
    max_length: int = Field(1024, ge=1, description="positions of source and target, where they are learnt")
    shared_embeddings: bool = Field(False, description="one table for source and target; with task.tied for the output too")
    dropout: float = Field(0.1, ge=0, lt=1, description="of embeddings, of what every window reads, and of the decoder's output")


class ConvolutionalEncoder(Body):
    """memory = [z; sqrt(1/2) (z + e)]: keys that know their context, values that know their word too. e is the embedding, z the layers'
    output, whose gradient is divided by `attentions`, the number of layers that look at it."""

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
    """`source` is what is written too, where not given. Without the paper's weight normalisation."""
    dim, embedding_dim, dropout = config.dim, config.embedding_dim, config.dropout
    positions = [build_positions(config.position, embedding_dim, 1, embedding_dim, config.max_length)[0] for _ in range(2)]
    if None in positions:
        name = part_name(config.position)
        raise UserError(
            f"{name} positions act inside self-attention, which a convolutional model has not; take learned, sinusoidal or none"
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
    reading += [GatedConvolution(dim, width=config.width, causal=False, dropout=dropout) for _ in range(config.num_layers)]
    reading.append(Linear(dim, embedding_dim))
    writing: list[SequenceLayer] = [Beside(embedding_dim, Linear(embedding_dim, dim), reads=embedding_dim, keeps=embedding_dim)]  # [h; g]
    writing += [LookingConvolution(dim, embedding_dim, width=config.width, dropout=dropout) for _ in range(num_looking)]
    writing.append(Beside(dim + embedding_dim, Linear(dim, embedding_dim), reads=dim, keeps=0, dropout=dropout))
    body = EncoderDecoder(ConvolutionalEncoder(reads, Stack(reading), num_looking), Body(writes, Stack(writing)))
    init_by_fan_in(body, dropout)
    return body


def init_by_fan_in(body: nn.Module, dropout: float) -> None:
    """Section 3.5: what is read is scaled by 1 / (1 - p) in training, and a gate halves a standard deviation.

    N(0, (1 - p) / n) for maps of n inputs, N(0, 4 (1 - p) / n) before a gate, N(0, 0.01) for embeddings and positions, biases 0.
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
