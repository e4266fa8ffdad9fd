"""The three models with which every contract is tested: each has ragged batches, their chunks, and a Stepper."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.core.batches import Batches
from clew.core.types import Memory, State, Term
from clew.data.plans import TokenBatch
from clew.layers.attentive import AttentiveCell
from clew.layers.cells import GRU
from clew.layers.embeddings import TokenEmbedding
from clew.layers.recurrent import Bidirectional, Recurrent
from clew.layers.scores import Additive
from clew.models.gpt import GPTConfig, build_gpt
from clew.models.recurrent import RecurrentConfig, build_recurrent
from clew.sources.tokens import Tokens
from clew.tasks.language_model import LanguageModel, LanguageModelConfig
from clew.text.train import train_character

LINES = [
    "a ball of thread",
    "is called a clew",
    "who follows it comes out",
    "of the maze again",
    "the word became clue",
    "it is short",
    "and so is this",
    "no more",
]
START, END, FIRST_SYMBOL, SYMBOLS = 0, 1, 2, 6


def lstm(dropout: float = 0.0, dim: int = 12) -> LanguageModel:
    torch.manual_seed(1)
    tokenizer = train_character(["\n".join(LINES)])
    config = RecurrentConfig(cell="lstm", dim=dim, num_layers=2, dropout=dropout)
    return LanguageModel(build_recurrent(config, Tokens(tokenizer.vocabulary)), tokenizer)


def gpt(dropout: float = 0.0, dim: int = 12) -> LanguageModel:
    torch.manual_seed(1)
    tokenizer = train_character(["\n".join(LINES)])
    config = GPTConfig(dim=dim, num_layers=2, num_heads=2, max_length=48, dropout=dropout)
    body = build_gpt(config, Tokens(tokenizer.vocabulary))
    return LanguageModel(body, tokenizer, LanguageModelConfig(tied=True))


def regularised(dim: int = 12) -> LanguageModel:
    """An LSTM with tied embeddings, without dropout, whose loss has every possible term."""
    torch.manual_seed(1)
    tokenizer = train_character(["\n".join(LINES)])
    body = build_recurrent(RecurrentConfig(cell="lstm", dim=dim, num_layers=2), Tokens(tokenizer.vocabulary))
    config = LanguageModelConfig(tied=True, label_smoothing=0.1, activation_penalty=2.0, temporal_penalty=1.0)
    return LanguageModel(body, tokenizer, config)


def decoder(dropout: float = 0.0, dim: int = 12) -> "Reversal":
    torch.manual_seed(1)
    return Reversal(dim, dropout)


class Pair(NamedTuple):
    """Sentences and their reversals; the tokens that are read lag one step behind the targets."""

    source: Tensor  # (batch, source length)
    source_mask: Tensor
    tokens: Tensor  # (batch, length)
    targets: Tensor
    mask: Tensor
    fresh: bool = True


class Reversal(nn.Module):
    """A bidirectional GRU reads a sentence; a GRU with additive attention writes it reversed (Bahdanau et al. 2015).

    The returned state is that of the decoder and includes its memory, so a reversal can be read in chunks like a text.
    """

    needs = ()

    def __init__(self, dim: int, dropout: float):
        super().__init__()
        self.vocabulary = FIRST_SYMBOL + SYMBOLS
        self.source_embedding = TokenEmbedding(self.vocabulary, dim, dropout=dropout)
        self.target_embedding = TokenEmbedding(self.vocabulary, dim, dropout=dropout)
        self.encoder = Bidirectional(Recurrent(GRU(dim, dim)), Recurrent(GRU(dim, dim)))
        self.bridge = nn.Linear(2 * dim, dim)
        self.decoder = Recurrent(AttentiveCell(dim, 2 * dim, GRU(3 * dim, dim), Additive(dim, 2 * dim)))
        self.output = nn.Linear(self.decoder.dim, self.vocabulary)

    def forward(self, batch: Pair, state: State = None) -> tuple[dict[str, Term], State]:
        if state is None:
            memory = self.memory(batch.source, batch.source_mask)
            state = self.decoder.initial_state(len(batch.tokens), memory, like=memory.values)
        logits, state = self.read(batch.tokens, batch.mask, state)
        targets = batch.targets.masked_fill(~batch.mask, -100)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")
        return {"loss": Term(loss, self.counts(batch)["loss"])}, state

    def counts(self, batch: Pair) -> dict[str, Tensor]:
        return {"loss": batch.mask.sum()}

    def memory(self, source: Tensor, mask: Tensor) -> Memory:
        values, (ahead, back) = self.encoder(self.source_embedding(source, torch.zeros_like(source)), mask)
        return Memory(values, mask, torch.tanh(self.bridge(torch.cat([ahead.cell, back.cell], -1))))

    def read(self, tokens: Tensor, mask: Tensor | None, state: State) -> tuple[Tensor, State]:
        y, state = self.decoder(self.target_embedding(tokens, torch.zeros_like(tokens)), mask, state)
        return self.output(y), state

    def stepper(self, source: Tensor, mask: Tensor) -> "ReversalStepper":
        return ReversalStepper(self, source, mask)


class ReversalStepper:
    """The Stepper for decoding: the sentences are in the state, so it is called like that of a language model."""

    def __init__(self, task: Reversal, source: Tensor, mask: Tensor):
        self.task = task
        self.memory = task.memory(source, mask)
        self.vocabulary = task.vocabulary

    def initial_state(self, rows: int, capacity: int | None = None) -> State:
        return self.task.decoder.initial_state(rows, self.memory, capacity, like=self.memory.values)

    def __call__(self, tokens: Tensor, mask: Tensor | None, state: State) -> tuple[Tensor, State]:
        logits, state = self.task.read(tokens, mask, state)
        return logits.log_softmax(-1), state


def pairs(*numbers: int, size: int, longest: int = 6) -> Pair:
    """Random sentences of 1 to `longest` symbols and their reversals; the numbers are the seed."""
    generator = torch.Generator().manual_seed(sum(number * 1009**i for i, number in enumerate(numbers)))
    lengths = torch.randint(1, longest + 1, (size,), generator=generator)
    source = torch.randint(FIRST_SYMBOL, FIRST_SYMBOL + SYMBOLS, (size, longest), generator=generator)
    return pair_of([row[:length].tolist() for row, length in zip(source, lengths, strict=True)])


def pair_of(sentences: list[list[int]]) -> Pair:
    source, source_mask = padded(sentences)
    whole, mask = padded([[START, *reversed(sentence), END] for sentence in sentences])
    return Pair(source, source_mask, whole[:, :-1], whole[:, 1:], mask[:, 1:])


def padded(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    tensor = nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
    return tensor, torch.arange(tensor.shape[1]) < torch.tensor([len(row) for row in rows])[:, None]


def lines_batch(task: LanguageModel, lines: list[str] = LINES) -> TokenBatch:
    return task.collate([task.encode(line + "\n") for line in lines])


def whole_batch(name: str, task: Any) -> Any:
    return pairs(5, size=8) if name == "decoder" else lines_batch(task)


def short_batch(name: str, task: Any) -> Any:
    """As ragged as the full batch, with fewer steps, because a compiler unrolls every step of a recurrence."""
    return pairs(5, size=8, longest=3) if name == "decoder" else lines_batch(task, [line.split()[0] for line in LINES])


def chunks_of(batch: Any, length: int) -> list[Any]:
    """Split a batch along its length; only the first chunk is fresh."""
    parts = []
    for start in range(0, batch.tokens.shape[1], length):
        cut = {field: getattr(batch, field)[:, start : start + length] for field in ("tokens", "targets", "mask")}
        parts.append(batch._replace(**cut, fresh=start == 0))
    return parts


def batches_of(all_batches: list[Any]) -> Batches:
    """An epoch of these batches."""
    return Batches(lambda epoch: len(all_batches), lambda epoch, number: all_batches[number])


MODELS: dict[str, Callable[..., Any]] = {"lstm": lstm, "gpt": gpt, "decoder": decoder}
