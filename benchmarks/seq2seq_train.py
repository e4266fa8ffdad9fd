"""A training step of encoder-decoders beside plain torch: source and target of 25 words, batch 32, vocabularies of 8,000.

The recurrent ones are 1 x 256 with a bidirectional encoder; the Transformer is 3 + 3 layers of 256 with 4 heads.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.peers import PlainAttentive, PlainTransformer
from benchmarks.side_by_side import Comparison, compare, device
from clew.models import MODELS
from clew.sources.tokens import Tokens

VOCABULARY, DIM, BATCH, LENGTH = 8_000, 256, 32, 25
RECURRENT = {"family": "seq2seq", "dim": DIM}
ATTENTIVE = {"family": "transformer", "dim": DIM, "num_heads": 4, "num_layers": 3, "dropout": 0.0}


class Ours(nn.Module):
    def __init__(self, settings: dict[str, Any]):
        super().__init__()
        family = MODELS[settings["family"]]
        self.body = family.build(family.config(**settings), Tokens(VOCABULARY), Tokens(VOCABULARY))
        self.output = nn.Linear(self.body.dim, VOCABULARY)

    def forward(self, source: Tensor, mask: Tensor, tokens: Tensor) -> Tensor:
        memory = self.body.encode(source, mask)
        hidden, _ = self.body(tokens, None, self.body.initial_state(len(tokens), memory))
        return self.output(hidden)


def run() -> list[Comparison]:
    place = device()
    source, tokens, targets = torch.randint(VOCABULARY, (3, BATCH, LENGTH), device=place)
    mask = torch.arange(LENGTH, device=place) < torch.randint(LENGTH // 2, LENGTH + 1, (BATCH, 1), device=place)

    def step(model: nn.Module) -> Callable[[], None]:
        model.to(place)
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1)

        def call() -> None:
            logits = model(source, mask, tokens)
            optimiser.zero_grad()
            F.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()
            optimiser.step()

        return call

    def attentive(**options: Any) -> Callable[[], None]:
        return step(PlainAttentive(VOCABULARY, DIM, **options))

    pairs: list[tuple[str, str, dict[str, Any], Callable[[], None]]] = [
        ("Bahdanau train step", "nn.LSTMCell, additive", {**RECURRENT, "readout": "none"}, attentive(kind="before")),
        (
            "Luong train step, input feeding",
            "nn.LSTMCell, general",
            {**RECURRENT, "attention": "after", "score": "general"},
            attentive(kind="fed"),
        ),
        (
            "Luong train step, nothing fed",
            "nn.LSTM, general",
            {**RECURRENT, "attention": "after", "score": "general", "feeding": False},
            attentive(kind="after"),
        ),
        ("Transformer train step", "torch.nn.Transformer", ATTENTIVE, step(PlainTransformer(VOCABULARY, DIM, 4, 3))),
    ]
    return [compare(name, peer, step(Ours(settings)), theirs, tokens=BATCH * LENGTH) for name, peer, settings, theirs in pairs]
