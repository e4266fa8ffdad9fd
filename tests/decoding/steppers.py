"""Small models for decoding: a table, a recurrent network, attention with a cache written in place, and a translator
with a memory."""

from typing import NamedTuple

import torch
from torch import Tensor

from clew.core.types import Memory, State
from clew.decoding.ranking import Coverage


class Transition:
    """p(next | last token, number of tokens read) from a table (depths, vocabulary, vocabulary); the last depth is used
    for all later tokens."""

    def __init__(self, probs: list):
        table = torch.tensor(probs, dtype=torch.float64)
        self.log_probs = (table if table.dim() == 3 else table[None]).log()
        self.vocabulary = self.log_probs.shape[-1]
        self.calls = 0

    def initial_state(self, rows: int, capacity: int | None = None) -> State:
        return torch.zeros(rows, dtype=torch.long)

    def __call__(self, tokens: Tensor, mask: Tensor | None, state: State) -> tuple[Tensor, State]:
        self.calls += 1
        depth = (state[:, None] + torch.arange(tokens.shape[1])).clamp(max=len(self.log_probs) - 1)
        return self.log_probs[depth, tokens], state + (tokens.shape[1] if mask is None else mask.sum(1))


class LookingTransition(Transition):
    """A table that attends to a source: after reading a token, its attention on place i of sentence s is
    weights[s, token, i]. In a source shorter than the longest, places from its length on are padding."""

    def __init__(self, probs: list, weights: list, lengths: list[int]):
        super().__init__(probs)
        self.weights = torch.tensor(weights, dtype=torch.float64)  # (sentences, vocabulary, places)
        self.padding = torch.arange(self.weights.shape[-1]) >= torch.tensor(lengths)[:, None]

    def initial_state(self, rows: int, capacity: int | None = None) -> State:
        sentence = torch.arange(len(self.weights)).repeat_interleave(rows // len(self.weights))
        return super().initial_state(rows), sentence, Coverage(self.padding[sentence].double())

    def __call__(self, tokens: Tensor, mask: Tensor | None, state: State) -> tuple[Tensor, State]:
        depth, sentence, coverage = state
        log_probs, depth = super().__call__(tokens, mask, depth)
        attended = self.weights[sentence[:, None], tokens] * (1 if mask is None else mask[..., None])
        return log_probs, (depth, sentence, Coverage(coverage.weights + attended.sum(1)))


class Recurrent:
    """h_t = tanh(E[token] + P[position] + U h_{t-1} + memory), p = softmax(W h_t), with at most `positions`
    positions."""

    def __init__(self, vocabulary: int, seed: int, dim: int = 5, positions: int = 64):
        generator = torch.Generator().manual_seed(seed)

        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        self.vocabulary = vocabulary
        self.embedding, self.positions, self.recurrence = (
            normal(vocabulary, dim),
            normal(positions, dim),
            normal(dim, dim),
        )
        self.output = normal(dim, vocabulary)

    def initial_state(self, rows: int, capacity: int | None = None) -> State:
        return torch.zeros(rows, self.output.shape[0], dtype=torch.float64), torch.zeros(rows, dtype=torch.long)

    def __call__(self, tokens: Tensor, mask: Tensor | None, state: State) -> tuple[Tensor, State]:
        return self.read(tokens, mask, state, torch.zeros(1, dtype=torch.float64))

    def read(self, tokens: Tensor, mask: Tensor | None, state: State, memory: Tensor) -> tuple[Tensor, State]:
        (hidden, count), log_probs = state, []
        for t in range(tokens.shape[1]):
            real = torch.ones(len(tokens), dtype=torch.bool) if mask is None else mask[:, t]
            position = self.positions[torch.where(real, count, 0)]
            new = torch.tanh(self.embedding[tokens[:, t]] + position + hidden @ self.recurrence + memory)
            hidden, count = torch.where(real[:, None], new, hidden), count + real
            log_probs.append((new @ self.output).log_softmax(-1))
        return torch.stack(log_probs, 1), (hidden, count)


class Cache(NamedTuple):
    keys: Tensor  # (rows, capacity, dim)
    count: Tensor  # (rows,)


class Attending:
    """p = softmax(W sum_s softmax_s(k_t . k_s) k_s) over a preallocated cache that every call writes in place."""

    def __init__(self, vocabulary: int, seed: int, dim: int = 4):
        generator = torch.Generator().manual_seed(seed)
        self.vocabulary = vocabulary
        self.embedding = torch.randn(vocabulary, dim, generator=generator, dtype=torch.float64)
        self.output = torch.randn(dim, vocabulary, generator=generator, dtype=torch.float64)

    def initial_state(self, rows: int, capacity: int | None = None) -> Cache:
        assert capacity is not None
        return Cache(
            torch.zeros(rows, capacity, self.embedding.shape[1], dtype=torch.float64),
            torch.zeros(rows, dtype=torch.long),
        )

    def __call__(self, tokens: Tensor, mask: Tensor | None, state: Cache) -> tuple[Tensor, Cache]:
        log_probs = []
        for t in range(tokens.shape[1]):
            real = torch.ones(len(tokens), dtype=torch.bool) if mask is None else mask[:, t]
            key = self.embedding[tokens[:, t]]
            state.keys[real, state.count[real]] = key[real]
            state.count.add_(real)
            visible = torch.arange(state.keys.shape[1]) < state.count[:, None]
            weights = (state.keys @ key[..., None])[..., 0].masked_fill(~visible, -1e9).softmax(-1)
            log_probs.append(((weights[:, None] @ state.keys)[:, 0] @ self.output).log_softmax(-1))
        return torch.stack(log_probs, 1), state


class Translator(Recurrent):
    """A recurrent network that also reads its sentence's memory, with one row per sentence for any number of beams."""

    def __init__(self, vocabulary: int, seed: int, sources: Tensor):
        super().__init__(vocabulary, seed, dim=sources.shape[1])
        self.sources = sources
        self.rows_of_memory: set[int] = set()

    def initial_state(self, rows: int, capacity: int | None = None) -> State:
        return Memory(self.sources), super().initial_state(rows)

    def __call__(self, tokens: Tensor, mask: Tensor | None, state: State) -> tuple[Tensor, State]:
        memory, carried = state
        self.rows_of_memory.add(len(memory.values))
        beams = len(tokens) // len(memory.values)
        log_probs, carried = self.read(tokens, mask, carried, memory.values.repeat_interleave(beams, 0))
        return log_probs, (memory, carried)


def padded(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    """Tokens and mask of rows of different lengths; padding is an ordinary token, so that reading it would change the
    result."""
    length = max(map(len, rows))
    tokens = torch.tensor([row + [1] * (length - len(row)) for row in rows])
    return tokens, torch.tensor([[t < len(row) for t in range(length)] for row in rows])


def probs_after(stepper, row: list[int]) -> list[float]:
    """p(next | row), with the row read in one call."""
    log_probs, _ = stepper(torch.tensor([row]), None, stepper.initial_state(1, len(row)))
    return log_probs[0, -1].exp().tolist()
