"""Recurrent decoders that attend to a memory at every step, before the cell or after it. A decoder cell is a cell, so
`Recurrent` runs it and beam search reorders its state. Where the context is not fed back, all steps attend at once.

`attend(score)` builds the attention: `Attention` is soft, `HardAttention` picks one place.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from clew.core.errors import UserError
from clew.core.state import map_tree
from clew.core.types import Fixed, Memory, State, Tree
from clew.layers.attending.cross_attention import attend_memory, fold_beams, unfold_beams
from clew.layers.attending.hard_attention import Draws, HardAttention
from clew.layers.attention import Attention, Prepared
from clew.layers.cells import Cell
from clew.layers.recurrent import Recurrent
from clew.layers.scores import Score
from clew.layers.sequence import SequenceLayer

Attend = Callable[[Score], Attention]


class AttentiveState(NamedTuple):
    cell: State
    memory: Memory


class FeedingState(NamedTuple):
    cell: State
    fed: Tensor  # (batch, width) h~ or the context of the previous step
    memory: Memory


class Drawn(NamedTuple):
    """The output of a cell with hard attention: y, and in training the draws."""

    y: Tensor
    draws: Draws | None


class AttentiveCell(Cell):
    """Attention before the cell (Bahdanau et al. 2015).

        context = sum_i softmax_i(score(s, h_i)) h_i
        s'      = cell([x; context], s)
        y       = [s'; context]

    The query is the cell's previous output, or its initial state. `cell` takes input_dim + memory_dim features. With
    hard attention the context is one h_i, and y is `Drawn`.
    """

    def __init__(self, input_dim: int, memory_dim: int, cell: Cell, score: Score, *, attend: Attend = Attention):
        super().__init__(input_dim, cell.dim + memory_dim)
        if cell.input_dim != input_dim + memory_dim:
            raise UserError(
                f"an attentive cell gives its inner cell [x; context] of width {input_dim + memory_dim}, but that takes"
                f" {cell.input_dim}"
            )
        self.cell = cell
        self.attention = attend(score)

    def initial_state(self, batch_size: int, memory: Memory | None = None, *, like: Tensor) -> State:
        return AttentiveState(self.cell.initial_state(batch_size, memory, like=like), without_final(memory))

    def inputs(self, x: Tensor) -> Tree:
        # Drawn once per chunk, and so the same at every step of a row.
        return self.cell.early_inputs(x), Fixed(choose_expected(self.attention, x))

    def forward(self, inputs: Tree, state: AttentiveState) -> tuple[Tensor | Drawn, AttentiveState]:
        early, expected = inputs
        memory = prepared(self.attention, state.memory)
        context, draws = look(self.attention, query_of(state.cell)[:, None], memory, expected.value)
        y, cell_state = self.cell(self.cell.late_inputs(early, context[:, 0]), state.cell)
        return drawn(self.attention, torch.cat([y, context[:, 0]], -1), draws), AttentiveState(cell_state, memory)


class FeedingCell(Cell):
    """Attention after the cell, with its output fed back (Luong et al. 2015, section 3.3).

        s'      = cell([x; h~], s)                        h~ of the previous step, 0 at first
        context = sum_i softmax_i(score(s', h_i)) h_i
        h~'     = tanh(W_c [context; s'])
        y       = h~'

    Without `joined` there is no W_c: y = [s'; context], and the context is fed back in place of h~. `cell` takes the
    features of x and of the fed vector; a stack of cells attends from its top. With hard attention the context is one
    h_i, and y is `Drawn`.
    """

    def __init__(
        self,
        input_dim: int,
        dim: int,
        memory_dim: int,
        cell: Cell,
        score: Score,
        *,
        joined: bool = True,
        attend: Attend = Attention,
    ):
        super().__init__(input_dim, joined_dim(dim, memory_dim, cell.dim, joined))
        self.fed_dim = dim if joined else memory_dim
        if cell.input_dim != input_dim + self.fed_dim:
            fed = "h~" if joined else "context"
            raise UserError(
                f"a feeding cell gives its inner cell [x; {fed}] of width {input_dim + self.fed_dim}, but that takes"
                f" {cell.input_dim}"
            )
        self.cell = cell
        self.attention = attend(score)
        self.join = nn.Linear(memory_dim + cell.dim, dim, bias=False) if joined else None

    def initial_state(self, batch_size: int, memory: Memory | None = None, *, like: Tensor) -> State:
        fed = like.new_zeros(batch_size, self.fed_dim)
        return FeedingState(self.cell.initial_state(batch_size, memory, like=like), fed, without_final(memory))

    def inputs(self, x: Tensor) -> Tree:
        # Drawn once per chunk, and so the same at every step of a row.
        return self.cell.early_inputs(x), Fixed(choose_expected(self.attention, x))

    def forward(self, inputs: Tree, state: FeedingState) -> tuple[Tensor | Drawn, FeedingState]:
        early, expected = inputs
        memory = prepared(self.attention, state.memory)
        s, cell_state = self.cell(self.cell.late_inputs(early, state.fed), state.cell)
        context, draws = look(self.attention, s[:, None], memory, expected.value)
        y = put_together(self.join, s, context[:, 0])
        fed = context[:, 0] if self.join is None else y
        return drawn(self.attention, y, draws), FeedingState(cell_state, fed, memory)


class LookingState(NamedTuple):
    memory: Memory
    draws: Draws | None


class Looking(SequenceLayer):
    """Attention after the cell, without feedback (Luong et al. 2015, section 3.1): h~ = tanh(W_c [context; s]), all
    steps at once.

    The input is s, the decoder's hidden vectors, which are the queries. Without `joined`, y = [s; context], with no
    layer between.
    """

    def __init__(
        self,
        input_dim: int,
        dim: int,
        memory_dim: int,
        score: Score,
        *,
        joined: bool = True,
        attend: Attend = Attention,
    ):
        super().__init__()
        self.dim = joined_dim(dim, memory_dim, input_dim, joined)
        self.attention = attend(score)
        self.join = nn.Linear(memory_dim + input_dim, dim, bias=False) if joined else None

    def initial_state(
        self, batch_size: int, memory: Memory | None = None, capacity: int | None = None, *, like: Tensor
    ) -> State:
        return LookingState(without_final(memory), None)

    def forward(self, x: Tensor, mask: Tensor | None = None, state: State = None) -> tuple[Tensor, State]:
        memory = without_final(None) if state is None else state.memory
        if self.attention.kernel is None:
            memory = prepared(self.attention, memory)
            context, draws = look(self.attention, x, memory, choose_expected(self.attention, x))
        else:
            values, draws = memory.values[:, None], None
            context = attend_memory(
                self.attention, fold_beams(x, values.shape[0])[:, None], values, values, memory.mask
            )
            context = unfold_beams(context[:, 0], x.shape[0])
        return put_together(self.join, x, context), LookingState(memory, draws)


class DrawingState(NamedTuple):
    recurrent: State
    draws: Draws | None


class Drawing(Recurrent):
    """A cell with hard attention, run over a sequence. The state after a chunk holds the chunk's draws."""

    def initial_state(
        self, batch_size: int, memory: Memory | None = None, capacity: int | None = None, *, like: Tensor
    ) -> State:
        return DrawingState(super().initial_state(batch_size, memory, capacity, like=like), None)

    def forward(self, x: Tensor, mask: Tensor | None = None, state: State = None) -> tuple[Tensor, State]:
        state = self.initial_state(x.shape[0], like=x) if state is None else state
        output, recurrent = super().forward(x, mask, state.recurrent)
        y, draws = output if isinstance(output, Drawn) else (output, None)
        return y, DrawingState(recurrent, draws)


def joined_dim(dim: int, memory_dim: int, state_dim: int, joined: bool) -> int:
    """The output width: the given `dim` of h~, or the width of [s; context]."""
    if not joined and dim != state_dim + memory_dim:
        raise UserError(f"without joined, dim ({dim}) must be that of [s; context], {state_dim + memory_dim}")
    return dim


def put_together(join: nn.Module | None, s: Tensor, context: Tensor) -> Tensor:
    return torch.cat([s, context], -1) if join is None else torch.tanh(join(torch.cat([context, s], -1)))


def without_final(memory: Memory | None) -> Memory:
    """The memory to attend to. Its `final` vectors are dropped: the initial state of the cell has used them."""
    if memory is None:
        raise UserError("an attentive decoder needs something to attend to; give initial_state a memory")
    return Memory(memory.values, memory.mask)


def prepared(attention: Attention, memory: Memory) -> Memory:
    """The memory (sentences, places, dim), prepared for one head; unchanged if it already is."""
    if isinstance(memory.values, Prepared):
        return memory
    values = memory.values[:, None]  # (sentences, 1, places, dim)
    return Memory(attention.prepare(values, values, memory.mask), memory.mask)


def choose_expected(attention: Attention, x: Tensor) -> Tensor | None:
    """Which rows of a chunk (batch, length, dim) use the expectation of hard attention in place of a draw; None if none
    does."""
    return attention.choose_expected(x) if isinstance(attention, HardAttention) else None


def look(
    attention: Attention, query: Tensor, memory: Memory, expected: Tensor | None = None
) -> tuple[Tensor, Draws | None]:
    """The contexts (rows, length, dim) of queries (rows, length, width). The beams of a sentence share its row of the
    memory."""
    prepared_memory, rows = memory.values, query.shape[0]
    sentences = prepared_memory.values.shape[0]
    folded = fold_beams(query, sentences)[:, None]  # (sentences, 1, query, width)
    if not isinstance(attention, HardAttention):
        return unfold_beams(attention.read(folded, prepared_memory)[:, 0], rows), None
    if expected is not None:
        # (sentences, 1, query, 1)
        expected = fold_beams(expected[:, None, None].expand(-1, query.shape[1], 1), sentences)[:, None]
    context, draws = attention.draw(folded, prepared_memory, expected)
    flat_draws = None if draws is None else map_tree(lambda part: part[:, 0].reshape(rows, -1), draws)
    return unfold_beams(context[:, 0], rows), flat_draws


def drawn(attention: Attention, y: Tensor, draws: Draws | None) -> Tensor | Drawn:
    """The output of one step, with its draws if attention is hard."""
    return Drawn(y, map_tree(lambda part: part[:, 0], draws)) if isinstance(attention, HardAttention) else y


def query_of(state: State) -> Tensor:
    """The hidden vector of a cell's state: the state itself, its first part, or the hidden vector of the top cell of a
    stack."""
    while not isinstance(state, Tensor):
        state = state[0] if hasattr(state, "_fields") else state[-1]
    return state
