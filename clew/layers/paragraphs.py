"""Paragraphs in two levels (Krause et al. 2017): a recurrent state plans a sentence at a time, another writes its words. Both attend to the
regions of a picture, and the words to the phrases that were found in these regions (Liang et al. 2017). Knows no picture and no token."""

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
    stops: Tensor  # (batch, sentences) logits of there being no such sentence


class PlannerState(NamedTuple):
    recurrent: State
    looking: State
    regions: Memory


class SentencePlanner(nn.Module):
    """What each sentence speaks of, and whether there is one.

        pooled  = max_i (W_p v_i + b_p)                           v_i: the regions of a picture
        s_j     = LSTM([r_{j-1}; pooled], s_{j-1})                r_{j-1}: the sentence before as it was read, 0 before the first
        c_j     = sum_i softmax_i(score(s_j, v_i)) v_i
        topic_j = tanh(W_t [s_j; c_j] + b_t)
        p(stop before sentence j) = sigmoid(w . topic_j + b)

    The state of Krause et al. reads `pooled` alone, and stops with the last sentence. Here it reads what was written, as that of Liang et
    al. does, so it stops when it has read all there is to say.
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
        return PlannerState(self.recurrent.initial_state(rows, like=like), self.looking.initial_state(rows, regions, like=like), regions)

    def forward(self, read: Tensor, state: PlannerState) -> tuple[Plan, PlannerState]:
        """`read` (batch, sentences, read_dim) is r_{j-1} of each sentence j."""
        pooled = self.pooled(state.regions)[:, None].expand(-1, read.shape[1], -1)
        s, recurrent = self.recurrent(torch.cat([read, pooled], -1), None, state.recurrent)
        seen, looking = self.looking(s, None, state.looking)  # (batch, sentences, dim + memory_dim)
        topics = torch.tanh(self.topic(seen))
        return Plan(topics, self.stop(topics)[..., 0]), PlannerState(recurrent, looking, state.regions)

    def pooled(self, regions: Memory) -> Tensor:
        mapped: Tensor = self.pool(regions.values)
        real = real_positions(regions.mask)
        return (mapped if real is None else mapped.masked_fill(~real[..., None], -torch.inf)).amax(1)


class WriterState(NamedTuple):
    words: State
    phrases: State


class SentenceWriter(nn.Module):
    """The words of a sentence, which starts from its topic.

        [h_0; cell_0] = tanh(W topic + b)
        [h_t; c_t]    = attentive LSTM over e_t, the embedded word before, and the regions (Bahdanau et al. 2015)
        p_t           = sum_k softmax_k(score(h_t, phrase word k)) phrase word k          where there are phrases
        y_t           = tanh(W_y [h_t; c_t; p_t; e_t] + b_y)

    The rows are a multiple of the pictures: all sentences of one, or all hypotheses, share its row of memory.
    """

    def __init__(self, word_dim: int, memory_dim: int, dim: int, *, phrase_dim: int | None = None, score: Scored = Additive):
        super().__init__()
        self.start = nn.Linear(dim, 2 * dim)
        self.words = Recurrent(AttentiveCell(word_dim, memory_dim, LSTM(word_dim + memory_dim, dim), score(dim, memory_dim)))
        width = self.words.dim
        self.phrases: Looking | None = None
        if phrase_dim is not None:
            self.phrases = Looking(width, width + phrase_dim, phrase_dim, score(width, phrase_dim), joined=False, attend=Attention)
            width = self.phrases.dim
        self.output = nn.Linear(width + word_dim, dim)

    def initial_state(self, topics: Tensor, regions: Memory, phrases: Memory | None = None) -> WriterState:
        """Before the first word of sentences on `topics` (rows, dim)."""
        start = torch.tanh(self.start(topics)).chunk(2, -1)
        words = self.words.initial_state(len(topics), Memory(regions.values, regions.mask, start), like=topics)
        return WriterState(words, None if self.phrases is None else self.phrases.initial_state(len(topics), phrases, like=topics))

    def forward(self, embedded: Tensor, mask: Tensor | None, state: WriterState) -> tuple[Tensor, WriterState]:
        """A vector for each word (rows, length, dim), from the embedded words before them."""
        seen, words = self.words(embedded, mask, state.words)
        phrases = None
        if self.phrases is not None:
            seen, phrases = self.phrases(seen, mask, state.phrases)
        return torch.tanh(self.output(torch.cat([seen, embedded], -1))), WriterState(words, phrases)
