"""Vectors as inputs of a body: frames of sound, measurements over time, any numbers at every position."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from clew.core.errors import UserError
from clew.layers.embeddings import VectorEmbedding


@dataclass(frozen=True)
class Vectors:
    """Vectors of `width` features, mapped to the body's width. An example is a tensor (length, width).

    In training, noise from N(0, noise^2) is added.
    """

    width: int
    noise: float = 0.0

    def embedding(self, dim: int, *, word_dropout: float = 0.0, table: Any = None, **around: Any) -> VectorEmbedding:
        refuse_table(word_dropout, table)
        return VectorEmbedding(self.width, dim, augment=self.augment, **around)

    def complete(self, embedding: VectorEmbedding) -> None:
        """Do nothing: a linear map is already complete."""

    def collate(self, examples: Sequence[Tensor]) -> tuple[Tensor, Tensor | None]:
        for number, example in enumerate(examples):
            if example.dim() != 2 or example.shape[1] != self.width:
                raise UserError(
                    f"example {number} has the shape {list(example.shape)}; vectors are (length, {self.width})"
                )
        lengths = torch.tensor([len(example) for example in examples])
        mask = torch.arange(int(lengths.max()))[None] < lengths[:, None]
        vectors = torch.nn.utils.rnn.pad_sequence(list(examples), batch_first=True)  # (batch, length, width)
        return vectors, None if bool(mask.all()) else mask

    def augment(self, inputs: Tensor) -> Tensor:
        return inputs + self.noise * torch.randn_like(inputs) if self.noise else inputs


def refuse_table(word_dropout: float, table: Any) -> None:
    """Refuse options of a family that need a table of tokens."""
    if word_dropout:
        raise UserError(
            f"model.word_dropout ({word_dropout}) drops words of a table, and vectors have none; leave it out"
        )
    if table is not None:
        raise UserError(
            "shared embeddings are a table of tokens, and vectors have none; set model.shared_embeddings=false"
        )
