"""Hierarchical paragraph generation (Krause et al. 2017): one recurrent state plans the sentences, another writes their
words. Both attend to the regions of a picture, and the writer to phrases that describe these regions (Liang et al.
2017). Knows no picture and no token."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from clew.core.masks import real_positions
from clew.core.types import Memory, State
from clew.layers.attention import Attention
from clew.layers.attentive import AttentiveCell, Looking
from clew.layers.cells import LSTM
from clew.layers.recurrent import Recurrent
from clew.layers.scores import Additive, Score

Scored = Callable[[int, int], Score]
"""`score(query_dim, key_dim)`."""


class Plan(NamedTuple):
    topics: Tensor  # (batch, sentences, dim)
    stops: Tensor  # (batch, sentences) logits of the paragraph having ended before this sentence


class PlannerState(NamedTuple):
    recurrent: State
    looking: State
    regions: Memory


class SentencePlanner(nn.Module):
    """Plans the topic of each sentence, and predicts whether there is another sentence.

        pooled  = max_i (W_p v_i + b_p)                     v_i: the regions of a picture
        s_j     = LSTM([r_{j-1}; pooled], s_{j-1})          r_{j-1}: the previous sentence, encoded; 0 before the first
        c_j     = sum_i softmax_i(score(s_j, v_i)) v_i
        topic_j = tanh(W_t [s_j; c_j] + b_t)
        p(stop before sentence j) = sigmoid(w . topic_j + b)

    The state of Krause et al. reads only `pooled`, and stops with the last sentence. Here it also reads the previous
    sentence, as in Liang et al., and stops after having read the last.
    """

    def __init__(self, read_dim: int, memory_dim: int, dim: int, score: Scored = Additive):
        super().__init__()
        self.pool = nn.Linear(memory_dim, dim)
        self.recurrent = Recurrent(LSTM(read_dim + dim, dim))
        self.looking = Looking(dim, dim + memory_dim, memory_dim, score(dim, memory_dim), joined=False)
        self.topic = nn.Linear(dim + memory_dim, dim)
        self.stop = nn.Linear(dim, 1)

    def initial_state(self, regions: Memory) -> PlannerState:
        rows, like = regions.values.shape[0], regions.values
        return PlannerState(
            self.recurrent.initial_state(rows, like=like), self.looking.initial_state(rows, regions, like=like), regions
        )

    def forward(self, read: Tensor, state: PlannerState) -> tuple[Plan, PlannerState]:
        """`read` (batch, sentences, read_dim) is r_{j-1} of each sentence j."""
        pooled = self.pooled(state.regions)[:, None].expand(-1, read.shape[1], -1)
        s, recurrent = self.recurrent(torch.cat([read, pooled], -1), None, state.recurrent)
        attended, looking = self.looking(s, None, state.looking)  # (batch, sentences, dim + memory_dim)
        topics = torch.tanh(self.topic(attended))
        return Plan(topics, self.stop(topics)[..., 0]), PlannerState(recurrent, looking, state.regions)

    def pooled(self, regions: Memory) -> Tensor:
        mapped: Tensor = self.pool(regions.values)
        real = real_positions(regions.mask)
        return (mapped if real is None else mapped.masked_fill(~real[..., None], -torch.inf)).amax(1)


class WriterState(NamedTuple):
    words: State
    phrases: State


class SentenceWriter(nn.Module):
    """Writes the words of a sentence, starting from its topic.

        [h_0; cell_0] = tanh(W topic + b)
        [h_t; c_t]    = attentive LSTM over e_t, the embedded previous word, and the regions (Bahdanau et al. 2015)
        p_t           = sum_k softmax_k(score(h_t, phrase word k)) phrase word k          if there are phrases
        y_t           = tanh(W_y [h_t; c_t; p_t; e_t] + b_y)

    The number of rows is a multiple of the number of pictures: all sentences or hypotheses of a picture share its row
    of memory.
    """

    def __init__(
        self, word_dim: int, memory_dim: int, dim: int, *, phrase_dim: int | None = None, score: Scored = Additive
    ):
        super().__init__()
        self.start = nn.Linear(dim, 2 * dim)
        self.words = Recurrent(
            AttentiveCell(word_dim, memory_dim, LSTM(word_dim + memory_dim, dim), score(dim, memory_dim))
        )
        width = self.words.dim
        self.phrases: Looking | None = None
        if phrase_dim is not None:
            self.phrases = Looking(
                width, width + phrase_dim, phrase_dim, score(width, phrase_dim), joined=False, attend=Attention
            )
            width = self.phrases.dim
        self.output = nn.Linear(width + word_dim, dim)

    def initial_state(self, topics: Tensor, regions: Memory, phrases: Memory | None = None) -> WriterState:
        """The state before the first word, for sentences on `topics` (rows, dim)."""
        start = torch.tanh(self.start(topics)).chunk(2, -1)
        words = self.words.initial_state(len(topics), Memory(regions.values, regions.mask, start), like=topics)
        return WriterState(
            words, None if self.phrases is None else self.phrases.initial_state(len(topics), phrases, like=topics)
        )

    def forward(self, embedded: Tensor, mask: Tensor | None, state: WriterState) -> tuple[Tensor, WriterState]:
        """The vector of each word (rows, length, dim), from the embedded words before it."""
        attended, words = self.words(embedded, mask, state.words)
        phrases = None
        if self.phrases is not None:
            attended, phrases = self.phrases(attended, mask, state.phrases)
        return torch.tanh(self.output(torch.cat([attended, embedded], -1))), WriterState(words, phrases)
