"""Convolutional encoders and decoders with gated linear units (Gehring et al. 2017). Every sum of two terms is scaled
by sqrt(1/2), which keeps its variance."""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.core.errors import UserError
from clew.core.masks import row_lengths
from clew.core.types import Memory, State
from clew.layers.attending.cross_attention import attend_memory, fold_beams, unfold_beams
from clew.layers.attention import Attention
from clew.layers.convolution import Convolution
from clew.layers.dropouts import Dropout
from clew.layers.scores import Dot
from clew.layers.sequence import SequenceLayer

HALF = math.sqrt(0.5)


class GatedConvolution(SequenceLayer):
    """A gated convolution with a residual connection (Dauphin et al. 2017; Gehring et al. 2017).

    [a; b] = W * dropout(x)
    y      = sqrt(1/2) (x + a * sigmoid(b))
    """

    def __init__(self, dim: int, *, width: int = 3, causal: bool = True, dropout: float = 0.0):
        super().__init__()
        self.dim = dim
        self.causal = causal
        self.convolution = Convolution(dim, 2 * dim, width=width, causal=causal)
        self.dropout = Dropout(dropout)

    def initial_state(
        self, batch_size: int, memory: Memory | None = None, capacity: int | None = None, *, like: Tensor
    ) -> State:
        return self.convolution.initial_state(batch_size, memory, capacity, like=like)

    def forward(self, x: Tensor, mask: Tensor | None = None, state: State = None) -> tuple[Tensor, State]:
        gated, state = self.gated(x, mask, state)
        return HALF * (x + gated), state

    def gated(self, x: Tensor, mask: Tensor | None, state: State) -> tuple[Tensor, State]:
        both, state = self.convolution(self.dropout(x), mask, state)
        return F.glu(both, -1), state


class LookingConvolutionState(NamedTuple):
    convolution: State
    memory: Memory


class LookingConvolution(GatedConvolution):
    """A decoder layer: a gated convolution, then attention, in every layer (Gehring et al. 2017, section 3.3).

        a       = the gated convolution of h             causal
        d       = sqrt(1/2) (W_d a + b_d + g)
        context = sqrt(m) sum_j softmax_j(d . z_j) v_j   over the m places of the source
        h'      = sqrt(1/2) (h + sqrt(1/2) (a + W_o context + b_o))

    Input and output are [h; g], with g the word's embedding. The memory is [z; v]: the encoder's output, and its output
    plus its embedding.
    """

    def __init__(self, dim: int, embedding_dim: int, *, width: int = 3, dropout: float = 0.0):
        super().__init__(dim, width=width, dropout=dropout)
        self.inner_dim, self.dim = dim, dim + embedding_dim
        self.query = nn.Linear(dim, embedding_dim)
        self.output = nn.Linear(embedding_dim, dim)
        self.attention = Attention(Dot(embedding_dim, embedding_dim))

    def initial_state(
        self, batch_size: int, memory: Memory | None = None, capacity: int | None = None, *, like: Tensor
    ) -> State:
        if memory is None:
            raise UserError("a decoder convolution attends to a source; give initial_state a memory")
        window = super().initial_state(batch_size, memory, capacity, like=like)
        return LookingConvolutionState(window, Memory(memory.values, memory.mask))

    def forward(self, x: Tensor, mask: Tensor | None = None, state: State = None) -> tuple[Tensor, State]:
        if state is None:
            raise UserError(
                "a decoder convolution reads its source from the state; start with initial_state(batch_size, memory)"
            )
        h, g = x.split_with_sizes([self.inner_dim, self.dim - self.inner_dim], -1)
        a, window = self.gated(h, mask, state.convolution)
        context = self.look(HALF * (self.query(a) + g), state.memory)
        h = HALF * (h + HALF * (a + self.output(context)))
        return torch.cat([h, g], -1), LookingConvolutionState(window, state.memory)

    def look(self, query: Tensor, memory: Memory) -> Tensor:
        keys, values = memory.values[:, None].chunk(2, -1)  # (sentences, 1, places, embedding_dim)
        context = attend_memory(self.attention, fold_beams(query, keys.shape[0])[:, None], keys, values, memory.mask)[
            :, 0
        ]
        if memory.mask is None:
            return math.sqrt(keys.shape[2]) * unfold_beams(context, query.shape[0])
        places = row_lengths(memory.mask).to(context.dtype)
        return unfold_beams(places.sqrt()[:, None, None] * context, query.shape[0])
