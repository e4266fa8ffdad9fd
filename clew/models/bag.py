"""A bag of words: an embedding with no layers above it. Averaged, with a feed-forward network above, it is the deep
averaging network of Iyyer et al. (2015)."""

from typing import Literal

from pydantic import Field

from clew.core.config import ModelSection
from clew.core.types import Source
from clew.layers.sequence import Stack
from clew.models.body import Body, uniform_table


class BagConfig(ModelSection):
    """Only an embedding, without layers."""

    family: Literal["bag"] = "bag"
    dim: int = Field(100, ge=1, description="width of the embedding")
    dropout: float = Field(0.0, ge=0, lt=1)
    word_dropout: float = Field(0.0, ge=0, lt=1, description="drops whole words of the embedding table")


def build_bag(config: BagConfig, source: Source) -> Body:
    embedding = source.embedding(config.dim, dropout=config.dropout, word_dropout=config.word_dropout)
    uniform_table(embedding, 0.1)
    return Body(embedding, Stack([], dim=config.dim))
