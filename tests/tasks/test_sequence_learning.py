"""Attention learns to copy and reverse short sequences, and attends to the right places."""

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from clew.core.batches import Batches
from clew.data.examples import Pair
from clew.data.synthetic.sequences import right_place, synthetic_lines
from clew.inspection.recording import record
from clew.metrics.strings import Accuracy, alignment_accuracy
from clew.models import MODELS
from clew.sources.tokens import Tokens
from clew.tasks.shared.sequence import SequenceConfig, SequenceToSequence
from clew.text.train import train_word
from clew.training.backward import StepOptions
from clew.training.loop import train
from clew.training.optimisers import adamw
from clew.training.records import Progress
from clew.training.schedules import Cosine

LONGEST, HELD_OUT = 5, 200
LSTM = {"family": "seq2seq", "dim": 48, "attention": "after", "score": "general"}
HARD = {"hard": True, "expectation": 0.5, "entropy_weight": 0.1}
LEARNT: dict[str, tuple[str, dict[str, Any], int]] = {
    "lstm-copy": ("copy", LSTM, 150),
    "lstm-reverse": ("reverse", LSTM, 150),
    "transformer-copy": (
        "copy",
        {"family": "transformer", "dim": 48, "num_layers": 1, "num_heads": 4, "dropout": 0.0},
        200,
    ),
    "hard-copy": ("copy", {**LSTM, **HARD}, 200),
    "hard-reverse": ("reverse", {**LSTM, **HARD}, 200),
}
"""The corpus, the model and the number of training steps."""


@cache
def learnt(name: str) -> tuple[SequenceToSequence, list[Pair]]:
    """A trained task, and held-out pairs."""
    corpus, settings, steps = LEARNT[name]
    pairs = [Pair(*line) for line in synthetic_lines(corpus, 4000 + HELD_OUT, 1, 1, LONGEST)]
    trained_sources = {pair.source for pair in pairs[HELD_OUT:]}
    held_out = [pair for pair in pairs[:HELD_OUT] if pair.source not in trained_sources]
    torch.manual_seed(0)
    tokenizer = train_word([pair.source for pair in pairs])
    family = MODELS[settings["family"]]
    body = family.build(family.config(**settings), Tokens(tokenizer.vocabulary), Tokens(tokenizer.vocabulary))
    task = SequenceToSequence(body, tokenizer, tokenizer, SequenceConfig(tied=True))
    encoded = task.encode(pairs[HELD_OUT:])

    def batch(epoch: int, number: int) -> Any:
        rows = np.random.default_rng([epoch, number]).integers(len(encoded), size=64)
        return task.collate([encoded[row] for row in rows])

    optimiser = adamw(task.parameters(), 0.01, weight_decay=0.0)
    batches = Batches(lambda epoch: 10**6, batch)
    for _ in train(
        task,
        batches,
        optimiser,
        Cosine(steps, warmup=20),
        StepOptions(seed=0, clip_norm=1.0),
        steps=steps,
        progress=Progress(),
    ):
        pass
    return task.eval(), held_out


def exact_match(name: str) -> float:
    task, pairs = learnt(name)
    return task.measure(pairs, task.predict(task.collate(task.encode(pairs)))).values["exact_match"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lstm-copy", "lstm-reverse", "transformer-copy"])
def test_held_out_sequences_are_generated_correctly(name: str) -> None:
    assert exact_match(name) >= 90


@pytest.mark.slow
@pytest.mark.parametrize("corpus", ["copy", "reverse"])
def test_hard_attention_learns_almost_as_well_as_soft_attention(corpus: str) -> None:
    """Trained as by Xu et al. 2015. Guessing would get one in twenty symbols right, and one in a hundred sequences."""
    assert exact_match(f"hard-{corpus}") >= exact_match(f"lstm-{corpus}") - 5


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lstm-copy", "lstm-reverse"])
def test_the_largest_weight_is_on_the_generated_word(name: str) -> None:
    task, pairs = learnt(name)
    batch = task.collate(task.encode(pairs))
    with torch.no_grad(), record(task, "*.weights") as recorded:
        task(batch)
    [path] = recorded
    weights = recorded[path][:, :, 0, 0]  # (batch, length, source length)
    accuracy = Accuracy()
    for row, pair in enumerate(pairs):
        length = len(pair.target.split())
        places = torch.tensor([[right_place(LEARNT[name][0], pair.source, step) for step in range(length)]])
        accuracy += alignment_accuracy(weights[row : row + 1, :length], places)
    assert accuracy.value >= 0.9
