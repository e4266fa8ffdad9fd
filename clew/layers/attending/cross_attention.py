"""Attention over a memory: a decoder attends to the encoder's output."""

from typing import Any

import torch
from torch import Tensor, nn

from clew.core.errors import UserError
from clew.core.masks import Places, real_positions
from clew.core.types import Memory, State
from clew.kernels import choose
from clew.kernels.memory_attention import supports_memory_attention
from clew.layers.attention import Attention, Prepared, seen_places, split_heads
from clew.layers.scores import ScaledDot, Score
from clew.layers.sequence import SequenceLayer


class CrossAttention(SequenceLayer):
    """Multi-head attention over a memory: queries from the decoder, keys and values from the encoder's output.

    Memory comes in through `initial_state`; its keys and values are projected on the first call and kept in the state.
    Beams of one sentence share the sentence's row of memory.
    """

    num_pruned = 0
    """The number of heads that pruning removed."""

    def __init__(
        self,
        dim: int,
        num_heads: int,
        *,
        memory_dim: int | None = None,
        score: Score | None = None,
        bias: bool = True,
        dropout: float = 0.0,
    ):
        super().__init__()
        if dim % num_heads:
            raise UserError(f"dim ({dim}) must be divisible by num_heads ({num_heads})")
        self.dim = dim
        self.num_heads = num_heads
        self.head_dim = dim // num_heads
        memory_dim = memory_dim or dim
        self.query = nn.Linear(dim, dim, bias=bias)
        self.key = nn.Linear(memory_dim, dim, bias=bias)
        self.value = nn.Linear(memory_dim, dim, bias=bias)
        self.output = nn.Linear(dim, dim, bias=bias)
        self.attention = Attention(score or ScaledDot(self.head_dim, self.head_dim), None, dropout)

    def initial_state(
        self, batch_size: int, memory: Memory | None = None, capacity: int | None = None, *, like: Tensor
    ) -> State:
        if memory is None:
            raise UserError("cross-attention needs something to attend to; give initial_state a memory")
        return Memory(memory.values, memory.mask)

    def forward(self, x: Tensor, mask: Tensor | None = None, state: State = None) -> tuple[Tensor, State]:
        if state is None:
            raise UserError(
                "cross-attention reads its memory from the state; start it with initial_state(batch_size, memory)"
            )
        if isinstance(state.values, Tensor):
            keys, values = (
                split_heads(self.key(state.values), self.head_dim),
                split_heads(self.value(state.values), self.head_dim),
            )
            prepared: Any = (
                (keys, values) if self.attention.kernel else self.attention.prepare(keys, values, state.mask)
            )
            state = Memory(prepared, state.mask)
        query = split_heads(self.query(fold_beams(x, state.values[0].shape[0])), self.head_dim)
        if isinstance(state.values, Prepared):
            context = self.attention.read(query, state.values)
        else:
            keys, values = state.values
            context = attend_memory(self.attention, query, keys, values, state.mask)
        return unfold_beams(self.output(context.transpose(1, 2).flatten(2)), x.shape[0]), state


def attend_memory(attention: Attention, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """The context of queries that each see every real place of their sentence's memory."""
    if (kernel := memory_kernel(attention, query, keys, values)) is not None:
        query, keys, scale = attention.score.as_dot(query, keys)
        by_kernel: Tensor = kernel(query, keys, values, real_positions(mask), scale=scale)
        return by_kernel
    key_index = torch.arange(keys.shape[2], device=keys.device)[None]
    nowhere = torch.zeros(1, query.shape[2], dtype=torch.long, device=keys.device)
    real = seen_places(mask)
    visible = None if real is None else real[:, None, None, :]
    context: Tensor = attention(query, keys, values, Places(nowhere, nowhere), key_index, visible)
    return context


def memory_kernel(attention: Attention, query: Tensor, keys: Tensor, values: Tensor) -> Any:
    """The kernel for few queries over a memory, if available: for scaled dot products without positions and dropout."""
    is_plain = (
        type(attention.score) is ScaledDot
        and attention.position is None
        and not (attention.training and attention.dropout)
    )
    kernel = choose("memory_attention", attention) if is_plain else None
    # Shapes are checked last: compiled code uses no kernel here, and would be specialised to the shapes.
    return kernel if kernel is not None and supports_memory_attention(query, keys, values) else None


def fold_beams(x: Tensor, sentences: int) -> Tensor:
    """(sentences * beams, length, dim) -> (sentences, beams * length, dim): a sentence's beams become queries of one
    row of memory."""
    if x.shape[0] == sentences:
        return x
    if sentences == 0 or x.shape[0] % sentences:
        raise UserError(
            f"{x.shape[0]} rows cannot share {sentences} rows of memory; the rows must be a multiple of the sentences"
        )
    return x.reshape(sentences, -1, x.shape[-1])


def unfold_beams(x: Tensor, rows: int) -> Tensor:
    """The inverse of `fold_beams`."""
    return x.reshape(rows, -1, x.shape[-1])
