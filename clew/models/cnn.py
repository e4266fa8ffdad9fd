"""The body of the convolutional classifier (Kim 2014): windows of several widths over word vectors. Max-pooling belongs
to the task."""

from typing import Annotated, Literal

from pydantic import Field

from clew.core.config import ModelSection
from clew.core.types import Source
from clew.layers.convolution import Windows
from clew.layers.sequence import Stack
from clew.layers.wiring import Plain
from clew.models.body import Body, uniform_table

Width = Annotated[int, Field(ge=1)]


class CNNConfig(ModelSection):
    """One layer of convolutions above an embedding."""

    family: Literal["cnn"] = "cnn"
    embedding_dim: int = Field(100, ge=1)
    widths: list[Width] = Field([3, 4, 5], min_length=1, description="window widths, in words")
    dim: int = Field(300, ge=1, description="number of features, shared by the widths")
    dropout: float = Field(0.0, ge=0, lt=1, description="after the embedding")


def build_cnn(config: CNNConfig, source: Source) -> Body:
    embedding = source.embedding(config.embedding_dim, dropout=config.dropout)
    uniform_table(embedding, 0.25)
    windows = Windows(config.embedding_dim, config.dim, widths=config.widths)
    return Body(embedding, Stack([Plain(config.embedding_dim, windows)]))
