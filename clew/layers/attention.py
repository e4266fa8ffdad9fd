"""Attention over a sequence's own past or over a memory: softmax(score(query, key)) value. The score and the position
encoding are passed in as modules."""

from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.core.errors import UserError
from clew.core.masks import Places, advance, new_clock, real_positions
from clew.core.sight import Sight
from clew.core.taps import Tap
from clew.core.types import Memory, State
from clew.kernels import choose
from clew.kernels.attention_facts import facts_of
from clew.kernels.decode_attention import supports_decode_attention
from clew.kernels.dot_attention import kind_of
from clew.kernels.flex_attention import takes_flex
from clew.kernels.projections import Together
from clew.kernels.query_blocks import holds_too_much
from clew.layers.attending.caches import (
    RING_CHUNK,
    Buffer,
    Chunk,
    Grown,
    Ring,
    new_buffer,
    new_ring,
    start_cache,
    whole,
)
from clew.layers.positions import ALiBi, Position
from clew.layers.scores import ScaledDot, Score
from clew.layers.sequence import SequenceLayer


class Prepared(NamedTuple):
    """A memory prepared for attention: everything that does not depend on the query."""

    keys: Tensor  # (sentences, heads, places, width) in the form of `Score.compare`
    values: Tensor  # (sentences, heads, places, dim)
    bias: Tensor | None  # (sentences, 1, 1, places) 0 where real, -inf where padding; None if all are real
    positions: Tensor | None  # (sentences, 1, places) -1 where padding; None unless the score uses positions


class Attention(nn.Module):
    """context_i = sum_j w_ij v_j,  w_i = softmax_j(score(q_i, k_j) + position_ij),  over the keys that query i sees."""

    length_axes = (2,)

    def __init__(self, score: Score, position: Position | None = None, dropout: float = 0.0):
        super().__init__()
        self.score = score
        self.position = position
        self.dropout = dropout
        self.scores = Tap(length_axes=(2, 3))
        self.weights = Tap(length_axes=(2, 3))
        fusable = score.is_dot and (position is None or (position.content_free and not position.adds_values))
        self.kernel = "dot_attention" if fusable else None

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        places: Places,
        key_index: Tensor,
        seen: Sight | Tensor | None = None,
    ) -> Tensor:
        """Return the context of `query` (batch, heads, query, width) at `places`. `key` and `value` at `key_index`
        (batch, key) may have fewer heads, each shared by a group of query heads. `seen` is a Sight, or a mask, True
        where a query may attend, that broadcasts to (batch, heads, query, key). Indices count from the start of the
        row; position encodings use only their differences within a document."""
        if isinstance(seen, Sight) and (in_blocks := self.in_blocks(query, key, value, seen)) is not None:
            return in_blocks
        position, bias = self.position, None
        if position is not None and position.biases:
            bias = partial(position.scores, query, places.index, key_index)
        kernel = choose(self.kernel, self) if query.shape[1] else None  # no kernel runs without a head
        if kernel is not None:
            left, right, scale = self.score.as_dot(query, key)
            dropout = self.dropout if self.training else 0.0
            slopes = None if position is None else position.linear_slopes
            context: Tensor = kernel(
                left, right, value, scale=scale, seen=seen, dropout=dropout, bias=bias, slopes=slopes
            )
            return context
        if key.shape[1] != query.shape[1]:
            repeats = query.shape[1] // key.shape[1]
            key, value = key.repeat_interleave(repeats, 1), value.repeat_interleave(repeats, 1)
        visible = seen.visible() if isinstance(seen, Sight) else seen
        in_document = key_index[:, None, :]
        if self.score.uses_positions:
            in_document = in_document - places.start[:, :, None]
            in_document = in_document if visible is None else torch.where(visible[:, 0], in_document, -1)
        scores = self.score(query, key, in_document)
        if bias is not None:
            scores = scores + bias()
        if visible is not None:
            scores = scores.masked_fill(~visible, float("-inf"))
        weights = self.weigh(scores)
        context = weights @ value
        if position is not None and position.adds_values:
            context = context + position.values(weights, places.index, key_index)
        return context

    def in_blocks(self, query: Tensor, key: Tensor, value: Tensor, seen: Sight) -> Tensor | None:
        """Compute the context in blocks of queries, if that saves memory and no tap records the scores; else None."""
        in_windows = None if self.leaves_window(query, key, value, seen) else choose("window_blocks", self)
        if in_windows is not None and (blocks := in_windows(query, key, value, seen)) is not None:
            context: Tensor = blocks.join(self.forward(*blocks.arguments()))
            return context
        by_queries, position = choose("query_blocks", self), self.position
        batch, heads, queries, _ = query.shape
        if by_queries is None or not holds_too_much(query.device.type, batch, heads, queries, key.shape[2]):
            return None
        # The kernel itself works in blocks if it can compute the mask and the bias (only a linear one).
        if self.kernel is None or (position is not None and position.biases and position.linear_slopes is None):
            context = by_queries(self.forward, query, key, value, seen)
            return context
        return None

    def leaves_window(self, query: Tensor, key: Tensor, value: Tensor, seen: Sight) -> bool:
        """Whether the kernel applies the window: on a GPU it may have a windowed form, which is faster than blocks."""
        if seen.window is None or self.kernel is None or not query.is_cuda:
            return False
        slopes = None if self.position is None else self.position.linear_slopes
        biased = self.position if self.position is not None and self.position.biases else None
        return takes_flex(
            facts_of(query, key, value, seen, kind_of(biased, slopes), self.dropout if self.training else 0.0)
        )

    def weigh(self, scores: Tensor) -> Tensor:
        weights = self.weights(torch.softmax(self.scores(scores), -1))
        return F.dropout(weights, self.dropout, self.training)

    def prepare(self, key: Tensor, value: Tensor, mask: Tensor | None) -> Prepared:
        """Prepare the keys and values (sentences, heads, places, dim) of a memory for `read`."""
        real, bias, positions = seen_places(mask), None, None
        if real is not None:
            bias = torch.zeros_like(real, dtype=value.dtype).masked_fill(~real, float("-inf"))[:, None, None]
        if self.score.uses_positions:
            positions = torch.arange(key.shape[2], device=key.device).expand(key.shape[0], 1, -1)
            positions = positions if real is None else torch.where(real[:, None], positions, -1)
        return Prepared(self.score.prepare(key), value, bias, positions)

    def read(self, query: Tensor, memory: Prepared) -> Tensor:
        """Return the context (sentences, heads, query, dim) of queries that attend to every real place of their
        sentence."""
        return self.weigh(self.compare(query, memory)) @ memory.values

    def compare(self, query: Tensor, memory: Prepared) -> Tensor:
        scores = self.score.compare(query, memory.keys, memory.positions)
        return scores if memory.bias is None else scores + memory.bias


class SelfAttention(SequenceLayer):
    """Multi-head self-attention (Vaswani et al. 2017).

        q, k, v = W_q x, W_k x, W_v x        head by head
        y = W_o [context_1; ...; context_h]

    If `num_kv_heads` is below `num_heads`, each key and value head serves a group of query heads (Ainslie et al. 2023).
    With `window` = r a position sees its r nearest neighbours: the r before it if causal, else r on each side. Pruning
    may leave groups of unequal size; `groups` then is the key and value head of each query head.
    """

    groups: Tensor | None
    num_pruned = 0
    """Number of pruned heads."""

    def __init__(
        self,
        dim: int,
        num_heads: int,
        *,
        causal: bool = True,
        window: int | None = None,
        num_kv_heads: int | None = None,
        head_dim: int | None = None,
        score: Score | None = None,
        position: Position | None = None,
        bias: bool = True,
        dropout: float = 0.0,
    ):
        super().__init__()
        num_kv_heads = num_kv_heads or num_heads
        if head_dim is None and dim % num_heads:
            raise UserError(f"dim ({dim}) must be divisible by num_heads ({num_heads}); or give head_dim")
        if num_heads % num_kv_heads:
            raise UserError(f"num_heads ({num_heads}) must be divisible by num_kv_heads ({num_kv_heads})")
        if window is not None and window < 0:
            raise UserError(f"window ({window}) must be at least 0: the number of neighbours that a position sees")
        self.dim = dim
        self.causal = causal
        self.window = window
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.head_dim = head_dim or dim // num_heads
        self.query = nn.Linear(dim, num_heads * self.head_dim, bias=bias)
        self.key = nn.Linear(dim, num_kv_heads * self.head_dim, bias=bias)
        self.value = nn.Linear(dim, num_kv_heads * self.head_dim, bias=bias)
        self.output = nn.Linear(num_heads * self.head_dim, dim, bias=bias)
        self.lay_together()
        self.register_buffer("groups", None, persistent=False)
        score = score or ScaledDot(self.head_dim, self.head_dim)
        self.attention = Attention(score, position, dropout)

    def initial_state(
        self, batch_size: int, memory: Memory | None = None, capacity: int | None = None, *, like: Tensor
    ) -> State:
        if not self.causal:
            return None
        clock = new_clock(batch_size, like.device)
        if capacity is None:
            empty = like.new_zeros(batch_size, self.num_kv_heads, 0, self.head_dim)
            return Grown(empty, empty, None, clock)
        if self.window is not None and self.window + RING_CHUNK < capacity:
            return new_ring(batch_size, self.num_kv_heads, self.window, self.head_dim, clock, like)
        return new_buffer(batch_size, self.num_kv_heads, capacity, self.head_dim, clock, like)

    def forward(self, x: Tensor, mask: Tensor | None = None, state: State = None) -> tuple[Tensor, State]:
        if not self.causal:
            self.refuse_state(state)
        if isinstance(state, Ring) and x.shape[1] > RING_CHUNK:
            return self.in_pieces(x, mask, state)
        if (kernel := self.step_kernel(x, mask, state)) is not None:
            return self.step(kernel, x, state), state
        places, clock = advance(None if state is None else state.clock, mask, x)
        query, key, value = self.project(x, places)
        extend = state.extend if state is not None else start_cache if self.causal else whole
        past = extend(key, value, Chunk(places, clock, mask, self.window))
        context = self.attention(query, *self.shared(past.keys, past.values), places, past.index, past.visible)
        return self.join(context), past.cache

    def step_kernel(self, x: Tensor, mask: Tensor | None, state: State) -> Any:
        """Choose a kernel for one new position over a buffer: only for scaled dot products with no bias or with ALiBi;
        else None."""
        if not isinstance(state, Buffer) or x.shape[1] != 1 or mask is not None:
            return None
        position = self.attention.position
        is_plain = position is None or not position.biases or isinstance(position, ALiBi)
        if not is_plain or self.groups is not None or not self.num_heads or type(self.attention.score) is not ScaledDot:
            return None
        return choose("decode_attention", self.attention) if supports_decode_attention(x, self.head_dim) else None

    def step(self, kernel: Any, x: Tensor, state: Buffer) -> Tensor:
        """Compute one new position of every row; its key and value are written into the buffer, and the clock advances,
        in place."""
        clock, position = state.clock, self.attention.position
        query, key, value = self.project(x, Places(clock.count[:, None], clock.start[:, None]))
        first = clock.start if self.window is None else torch.maximum(clock.start, clock.count - self.window)
        query, key, scale = self.attention.score.as_dot(query, key)
        slopes = position.slopes if isinstance(position, ALiBi) else None
        options = {"scale": scale, "slopes": slopes, "places": state.places}
        context = kernel(query, key, value, state.keys, state.values, clock.count, first, **options)
        clock.count.add_(1)
        return self.join(context)

    def project(self, x: Tensor, places: Places) -> tuple[Tensor, Tensor, Tensor]:
        together = self.together(x, self.query, self.key, self.value)
        if together is not None:
            heads = [self.num_heads, self.num_kv_heads, self.num_kv_heads]
            query, key, value = split_heads(together, self.head_dim).split_with_sizes(heads, 1)
        else:
            query, key, value = (split_heads(part(x), self.head_dim) for part in (self.query, self.key, self.value))
        if (position := self.attention.position) is not None:
            positions = places.positions
            query, key = position.rotate(query, positions), position.rotate(key, positions)
        return query, key, value

    def _apply(self, fn: Any, recurse: bool = True) -> "SelfAttention":
        """Join the projections again after `to`, `double` and the like, which move each weight separately."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.lay_together()
        return self

    def lay_together(self) -> None:
        self.together = Together((self.query, self.key, self.value))

    def shared(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Repeat keys and values for the query heads if the groups are of unequal size."""
        return (key, value) if self.groups is None else (key[:, self.groups], value[:, self.groups])

    def join(self, context: Tensor) -> Tensor:
        joined: Tensor = self.output(context.transpose(1, 2).flatten(2))
        return joined

    def in_pieces(self, x: Tensor, mask: Tensor | None, state: State) -> tuple[Tensor, State]:
        outputs = []
        for start in range(0, x.shape[1], RING_CHUNK):
            piece = slice(start, start + RING_CHUNK)
            y, state = self.forward(x[:, piece], None if mask is None else mask[:, piece], state)
            outputs.append(y)
        return torch.cat(outputs, 1), state


def seen_places(mask: Tensor | None) -> Tensor | None:
    """The places of a memory to attend to: the real ones, or all if a sentence has none, since its softmax would be
    NaN."""
    real = real_positions(mask)
    return None if real is None else real | ~real.any(1, keepdim=True)


def split_heads(x: Tensor, head_dim: int) -> Tensor:
    """(batch, length, heads * head_dim) -> (batch, heads, length, head_dim)"""
    return x.view(x.shape[0], x.shape[1], x.shape[2] // head_dim, head_dim).transpose(1, 2)
