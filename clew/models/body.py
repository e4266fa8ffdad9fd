"""A body: an embedding, a stack of sequence layers and a final norm. It knows no task; its output is one vector per
position."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from clew.core.masks import Clock, advance, new_clock
from clew.core.types import Memory, State
from clew.layers.embeddings import Embedding, tokens_of
from clew.layers.recurrent import Bidirectional
from clew.layers.sequence import Stack

MOST_LAYERS = 1000
"""More layers take minutes to build, however small they are."""


class BodyState(NamedTuple):
    clock: Clock
    layers: State


class Body(nn.Module):
    """hidden = norm(layers(embedding(inputs))).

    `forward` takes a chunk of any length and the state of the previous chunk; `levels` returns the embedding and every
    layer's output.
    """

    halves = False
    """Whether one half of each vector depends only on positions up to its own, the other only on positions from its
    own."""

    def __init__(self, embedding: Embedding, layers: Stack | Bidirectional, norm: nn.Module | None = None):
        super().__init__()
        self.embedding = embedding
        self.layers = layers
        self.norm = norm if norm is not None else nn.Identity()
        self.causal = layers.causal
        self.dim = layers.dim
        self.vocabulary = embedding.vocabulary

    @property
    def whole(self) -> bool:
        """Whether each position also sees later positions."""
        return not self.causal

    @property
    def max_length(self) -> int | None:
        """The number of learnt positions; None if positions are unbounded."""
        return self.embedding.position.max_length if self.embedding.position is not None else None

    def initial_state(
        self, batch_size: int, memory: Memory | None = None, capacity: int | None = None, *, like: Tensor | None = None
    ) -> State:
        like = self.embedding.like if like is None else like
        return BodyState(
            new_clock(batch_size, like.device), self.layers.initial_state(batch_size, memory, capacity, like=like)
        )

    def forward(self, inputs: Any, mask: Tensor | None = None, state: State = None) -> tuple[Tensor, State]:
        x, clock = self.embed(inputs, mask, state)
        hidden, layers = self.layers(x, mask, None if state is None else state.layers)
        return self.norm(hidden), BodyState(clock, layers)

    def levels(self, inputs: Any, mask: Tensor | None = None, state: State = None) -> list[Tensor]:
        x, _ = self.embed(inputs, mask, state)
        *lower, top = self.layers.levels(x, mask, None if state is None else state.layers)[0]
        return [*lower, self.norm(top)]

    def embed(self, inputs: Any, mask: Tensor | None, state: State) -> tuple[Tensor, Clock]:
        if not self.causal:
            self.layers.refuse_state(state)
        places, clock = advance(None if state is None else state.clock, mask, tokens_of(inputs))
        return self.embedding(inputs, places), clock


def uniform_table(embedding: Embedding, scale: float) -> None:
    """Draw the token table, if there is one, from U(-scale, scale)."""
    embedding.draw(lambda table: nn.init.uniform_(table, -scale, scale))


def normal_init(module: nn.Module, std: float) -> None:
    """Draw every matrix from N(0, std^2) and set biases to 0; norms and position tables keep their own
    initialisation."""
    for part in module.modules():
        if isinstance(part, (nn.Linear, nn.Embedding)):
            nn.init.normal_(part.weight, std=std)
            if isinstance(part, nn.Linear) and part.bias is not None:
                nn.init.zeros_(part.bias)


def uniform_init_all(module: nn.Module, scale: float) -> None:
    """Draw every parameter, biases included, from U(-scale, scale) (Zaremba et al. 2014)."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.uniform_(-scale, scale)
