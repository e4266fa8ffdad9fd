"""Every family learns: an untrained model guesses, a trained one has memorised eight lines."""

import math
from typing import Any

import pytest
import torch

from clew.models import MODELS
from clew.sources.tokens import Tokens
from clew.tasks.language_model import LanguageModel
from clew.text.train import train_character
from clew.training.backward import StepOptions
from clew.training.loop import train
from clew.training.optimisers import adamw
from clew.training.records import Progress
from clew.training.schedules import Cosine
from tests.thread.models import batches_of

LINES = ["one day", "two keys", "six mice", "red door", "old man", "far away", "by night", "up there"]
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "lstm": ("recurrent", {"cell": "lstm", "dim": 48}),
    "gpt": ("gpt", {"dim": 32, "num_layers": 2, "num_heads": 2, "max_length": 16}),
    "llama": ("llama", {"dim": 32, "num_layers": 2, "num_heads": 2}),
    "window": ("window", {"width": 4, "embedding_dim": 16, "dim": 64}),
    "mixed": (
        "mixed",
        {"layers": ["gru", {"name": "attention", "num_heads": 2}, "convolution", "feedforward"], "dim": 32},
    ),
}


def task_of(name: str) -> LanguageModel:
    torch.manual_seed(0)
    family, settings = FAMILIES[name]
    tokenizer = train_character(["\n".join(LINES)])
    return LanguageModel(
        MODELS[family].build(MODELS[family].config(**settings), Tokens(tokenizer.vocabulary)), tokenizer
    )


def lines_of(task: LanguageModel) -> Any:
    """One row per line. The first character of a row is only read, not predicted."""
    return task.collate([task.encode(line + "\n") for line in LINES])


@pytest.mark.parametrize("name", FAMILIES)
def test_an_untrained_model_guesses_uniformly(name: str) -> None:
    task = task_of(name)
    terms, _ = task(lines_of(task))
    loss = (terms["loss"].sum / terms["loss"].count).item()
    assert loss == pytest.approx(math.log(task.body.vocabulary), rel=0.15)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_a_trained_model_memorises_eight_lines(name: str) -> None:
    task = task_of(name)
    optimiser = adamw(task.parameters(), 0.02, weight_decay=0.0)
    steps = 100
    batches = batches_of([lines_of(task)])
    records = list(
        train(
            task,
            batches,
            optimiser,
            Cosine(steps, floor=0.05),
            StepOptions(seed=0, clip_norm=1.0),
            steps=steps,
            progress=Progress(),
        )
    )
    assert records[-1].loss < 0.05
