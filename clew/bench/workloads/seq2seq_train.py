"""A training step of encoder-decoders, compared with plain torch: three with attention over a bidirectional LSTM, and
the Transformer."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.bench.peers import PlainAttentive, PlainTransformer
from clew.bench.timing import Call
from clew.bench.workload import OURS, Setting, Side, Work, Workload, training_cost
from clew.bench.workloads.steps import loop_step, train_step
from clew.core.types import Term
from clew.models import MODELS
from clew.sources.tokens import Tokens
from clew.training.optimisers import sgd

HEADS, LAYERS = 4, 3
LUONG = {"family": "seq2seq", "attention": "after", "score": "general"}


class Pairs(NamedTuple):
    source: Tensor  # (batch, length)
    mask: Tensor
    tokens: Tensor
    targets: Tensor


class Ours(nn.Module):
    """An encoder-decoder with an output layer, as a task."""

    def __init__(self, vocabulary: int, settings: dict[str, Any]):
        super().__init__()
        family = MODELS[settings["family"]]
        self.body = family.build(family.config(**settings), Tokens(vocabulary), Tokens(vocabulary))
        self.output = nn.Linear(self.body.dim, vocabulary)

    def forward(self, batch: Pairs, state: None = None) -> tuple[dict[str, Term], None]:
        memory = self.body.encode(batch.source, batch.mask)
        hidden, _ = self.body(batch.tokens, None, self.body.initial_state(len(batch.tokens), memory))
        loss = F.cross_entropy(self.output(hidden).flatten(0, 1), batch.targets.flatten(), reduction="sum")
        return {"loss": Term(loss, torch.tensor(batch.targets.numel()))}, None

    def counts(self, batch: Pairs) -> dict[str, Tensor]:
        return {"loss": torch.tensor(batch.targets.numel())}


def seq2seq_train(
    name: str,
    about: str,
    settings: dict[str, Any],
    peer: str,
    plain: Callable[[int, int], nn.Module],
    weights: Callable[[int, int], float],
) -> Workload:
    """Build a workload. `plain` builds the peer for a vocabulary and a width; `weights` returns the number of weights
    that a source token and a target token are multiplied with."""

    def build(setting: Setting) -> Work:
        vocabulary, dim, batch, length = setting.sizes((8_000, 256, 32, 25), quick=(300, 64, 8, 20))
        source, tokens, targets = torch.randint(vocabulary, (3, batch, length), device=setting.device)
        mask = torch.arange(length, device=setting.device) < torch.randint(
            length // 2, length + 1, (batch, 1), device=setting.device
        )

        def ours() -> Call:
            model = Ours(vocabulary, {**settings, "dim": dim}).to(setting.device)
            return loop_step(
                model, Pairs(source.cpu(), mask.cpu(), tokens.cpu(), targets.cpu()), sgd(model.parameters(), 0.1)
            )

        def theirs() -> Call:
            model = plain(vocabulary, dim).to(setting.device)

            def loss() -> Tensor:
                return F.cross_entropy(model(source, mask, tokens).flatten(0, 1), targets.flatten())

            return train_step(torch.optim.SGD(model.parameters(), lr=0.1), loss)

        sides = [Side(OURS, ours), Side(peer, theirs)]
        sizes = f"width {dim}, {batch} x {length} tokens, vocabulary {vocabulary:,}"
        return Work(sides, sizes, batch * length, training_cost(weights(vocabulary, dim), batch * length))

    return Workload(name, about, build, (peer,))


SEQ2SEQ_TRAIN = [
    seq2seq_train(
        "bahdanau-train",
        "a training step of an LSTM with additive attention before its cell",
        {"family": "seq2seq", "readout": "none"},
        "nn.LSTMCell",
        lambda vocabulary, dim: PlainAttentive(vocabulary, dim, "before"),
        lambda vocabulary, dim: (16 + 4 + 16 + 2) * dim**2 + 3 * dim * vocabulary,
    ),
    seq2seq_train(
        "luong-fed-train",
        "a training step of an LSTM with general attention after its cell, fed back",
        LUONG,
        "nn.LSTMCell",
        lambda vocabulary, dim: PlainAttentive(vocabulary, dim, "fed"),
        lambda vocabulary, dim: (16 + 2 + 12 + 3) * dim**2 + dim * vocabulary,
    ),
    seq2seq_train(
        "luong-train",
        "a training step of an LSTM with general attention after its cell, nothing fed back",
        {**LUONG, "feeding": False},
        "nn.LSTM",
        lambda vocabulary, dim: PlainAttentive(vocabulary, dim, "after"),
        lambda vocabulary, dim: (16 + 2 + 8 + 3) * dim**2 + dim * vocabulary,
    ),
    seq2seq_train(
        "transformer-train",
        "a training step of the Transformer",
        {"family": "transformer", "num_heads": HEADS, "num_layers": LAYERS, "dropout": 0.0},
        "nn.Transformer",
        lambda vocabulary, dim: PlainTransformer(vocabulary, dim, HEADS, LAYERS),
        lambda vocabulary, dim: LAYERS * (12 + 16) * dim**2 + dim * vocabulary,
    ),
]
