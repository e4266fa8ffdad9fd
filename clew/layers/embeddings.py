"""Token ids to vectors, with what is added to them before the first layer."""

import math
from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn

from clew.core.errors import UserError
from clew.core.masks import Places
from clew.layers.dropouts import DROPOUTS, drop_words
from clew.layers.positions import Position


class Segmented(NamedTuple):
    """Tokens with the number of the segment each belongs to."""

    tokens: Tensor
    segments: Tensor


class TokenEmbedding(nn.Module):
    """x_i = E[token_i] (+ position_i) (+ S[segment_i]).

    `scaled` multiplies E by sqrt(dim) (Vaswani et al. 2017). `word_dropout` drops whole words of the table. The output layer may tie its
    weight to `weight`. `table` is another embedding's E, which stays a part of that one alone: a shared table is saved once.
    """

    def __init__(
        self,
        vocabulary: int,
        dim: int,
        *,
        position: Position | None = None,
        num_segments: int = 0,
        scaled: bool = False,
        dropout: float = 0.0,
        dropout_kind: str = "plain",
        word_dropout: float = 0.0,
        table: nn.Embedding | None = None,
    ):
        super().__init__()
        if vocabulary < 1:
            raise UserError(f"vocabulary ({vocabulary}) must be at least 1")
        self.vocabulary = vocabulary
        self.dim = dim
        if table is None:
            self.tokens = nn.Embedding(vocabulary, dim)
        else:
            object.__setattr__(self, "tokens", table)  # seen by neither parameters() nor state_dict()
        self.segments = nn.Embedding(num_segments, dim) if num_segments else None
        self.position = position
        self.scale = math.sqrt(dim) if scaled else 1.0
        self.word_dropout = word_dropout
        self.dropout = DROPOUTS[dropout_kind](dropout)

    @property
    def weight(self) -> Tensor:
        return self.tokens.weight

    def forward(self, inputs: Tensor | Segmented, places: Places) -> Tensor:
        tokens = inputs.tokens if isinstance(inputs, Segmented) else inputs
        x = F.embedding(tokens, drop_words(self.weight, self.word_dropout, self.training))
        if self.scale != 1.0:
            x = x * self.scale
        if self.position is not None:
            x = self.position.embed(x, places.positions)
        if isinstance(inputs, Segmented):
            if self.segments is None:
                raise UserError("this embedding has no segments; build it with num_segments")
            x = x + self.segments(inputs.segments)
        return self.dropout(x) if self.training else x
