"""The fixed-window neural language model (Bengio et al. 2003): the step between n-grams and recurrence."""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from clew.core.config import ModelSection
from clew.core.types import Source, State
from clew.layers.convolution import Convolution
from clew.layers.sequence import Stack
from clew.layers.wiring import Plain
from clew.models.body import Body


class WindowConfig(ModelSection):
    """The vectors of the last `width` words, concatenated, under one tanh layer."""

    family: Literal["window"] = "window"
    width: int = Field(4, ge=1, description="number of words it sees")
    embedding_dim: int = Field(64, ge=1)
    dim: int = Field(256, ge=1, description="width of the hidden layer")
    dropout: float = Field(0.0, ge=0, lt=1)


class TanhWindow(Convolution):
    """h_t = tanh(d + H [x_{t-n+1}; ...; x_t])."""

    def forward(self, x: Tensor, mask: Tensor | None = None, state: State = None) -> tuple[Tensor, State]:
        y, state = super().forward(x, mask, state)
        return torch.tanh(y), state


def build_window(config: WindowConfig, source: Source) -> Body:
    """Omits the paper's optional direct connections from words to outputs."""
    embedding = source.embedding(config.embedding_dim, dropout=config.dropout)
    window = TanhWindow(config.embedding_dim, config.dim, width=config.width)
    return Body(embedding, Stack([Plain(config.embedding_dim, window, dropout=config.dropout)]))
