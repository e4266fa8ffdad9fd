"""The convolutional classifier's body (Kim 2014): windows of several widths over word vectors; pooling by the maximum is the task's."""

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
    """One layer of windows under an embedding."""

    family: Literal["cnn"] = "cnn"
    embedding_dim: int = Field(100, ge=1)
    widths: list[Width] = Field([3, 4, 5], min_length=1, description="how many words each kind of window holds")
    dim: int = Field(300, ge=1, description="features of all kinds together, which share them")
    dropout: float = Field(0.0, ge=0, lt=1, description="of the embedding")


def build_cnn(config: CNNConfig, source: Source) -> Body:
    embedding = source.embedding(config.embedding_dim, dropout=config.dropout)
    uniform_table(embedding, 0.25)
    windows = Windows(config.embedding_dim, config.dim, widths=config.widths)
    return Body(embedding, Stack([Plain(config.embedding_dim, windows)]))
