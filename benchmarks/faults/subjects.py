"""What faults are done to: three small trainings that start, or go on from what they find on disk, and the bits they
end with.

An LSTM whose state is carried over streams and a GPT on windows are whole runs; a Bahdanau decoder, which no recipe
trains yet, goes through the loop and the checkpoints as a run does. All have dropout, averages and a schedule that
reacts to what it observes.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch._dynamo  # what the first step would import, so that no child has to
import torch.nn.functional as F
from torch import Tensor, nn

from clew.core.batches import Batches
from clew.core.files import read_json
from clew.core.identity import Known
from clew.core.types import Memory, State, Term
from clew.layers.attentive import AttentiveCell
from clew.layers.cells import GRU
from clew.layers.embeddings import TokenEmbedding
from clew.layers.recurrent import Bidirectional, Recurrent
from clew.layers.scores import Additive
from clew.recipes.running import run_recipe
from clew.runs.directory import append_metrics, read_weights, truncate_metrics
from clew.runs.folder.run_files import WEIGHTS, is_run, read_metrics
from clew.training.averaging import Exponential
from clew.training.backward import StepOptions
from clew.training.checkpoints import (
    TRAINING,
    TrainingState,
    checkpoint_folders,
    find_checkpoint,
    load_checkpoint,
    read_group,
    save_checkpoint,
)
from clew.training.loop import train
from clew.training.observers import Best
from clew.training.optimisers import adamw
from clew.training.records import Progress
from clew.training.schedules import Plateau

TEXT = (
    "the ball of thread was small and red.\n"
    "she tied one end to the door and went in.\n"
    "the walls were tall and all the turns were the same.\n"
    "when she had found him they followed the thread out again.\n"
) * 6
COMMON = [
    "text.tokenizer=character",
    "text.size=null",
    "model.dim=16",
    "model.dropout=0.2",
    "training.batch_size=4",
    "training.length=16",
    "training.log_every=1",
    "training.evaluate_every=6",
    "training.save_every=3",
    "decoding.max_new=20",
    "device=cpu",
]
LSTM = [
    *COMMON,
    "model.embedding_dim=8",
    "training.schedule={name: plateau, patience: 1}",
    "training.average={name: triggered, patience: 1}",
]
GPT = [
    *COMMON,
    "model.num_layers=1",
    "model.num_heads=2",
    "model.max_length=32",
    "training.schedule=cosine",
    "training.average=ema",
]
BY_THE_CLOCK = ("seconds", "tokens_per_second")
START, END, FIRST_SYMBOL, SYMBOLS = 0, 1, 2, 6


def train_lstm(folder: Path, steps: int) -> None:
    train_recipe("text-lstm", [*LSTM, f"training.steps={steps}"], folder)


def train_gpt(folder: Path, steps: int) -> None:
    train_recipe("text-gpt", [*GPT, f"training.steps={steps}"], folder)


def train_recipe(recipe: str, settings: list[str], folder: Path) -> None:
    """The run in a folder, begun or gone on with, as the command would; its text and its cache stand beside it."""
    os.environ["CLEW_CACHE"] = str(folder.parent / "cache")
    run_recipe(recipe, [f"data.train={text_beside(folder)}", *settings], out=folder, resume=is_run(folder))


def text_beside(folder: Path) -> Path:
    text = folder.parent / "story.txt"
    if not text.exists():
        aside = text.with_suffix(f".{os.getpid()}")
        aside.write_text(TEXT, encoding="utf-8")
        aside.replace(text)
    return text


def train_decoder(folder: Path, steps: int) -> None:
    training = decoder_training()
    found, _ = find_checkpoint(folder)
    folder.mkdir(exist_ok=True)
    if found is not None:
        load_checkpoint(found, training)
    truncate_metrics(folder, training.progress.step if found is not None else -1)
    for record in decoder_steps(training, steps):
        append_metrics(folder, {"step": record.step, "loss": record.loss, "gradient_norm": record.gradient_norm})
        if record.step % 6 == 0:
            training.schedule.observe(record.loss)
            training.best.observe(record.loss, record.step)
        if record.step % 3 == 0 or record.step == steps:
            save_checkpoint(folder, training)


def decoder_training(dropout: float = 0.2, dim: int = 12) -> TrainingState:
    torch.manual_seed(1)
    task = Reversal(dim, dropout)
    return TrainingState(
        task,
        adamw(task.parameters(), 0.01),
        Plateau(99),
        Best(),
        Progress(),
        {"model": Known({}, "reversal")},
        Exponential(task),
    )


def decoder_batches() -> Batches:
    return Batches(lambda epoch: 5, lambda epoch, number: pairs(epoch, number, size=8))


def decoder_steps(training: TrainingState, steps: int, forward: nn.Module | None = None) -> Any:
    task: Any = training.task
    return train(
        task if forward is None else forward,
        decoder_batches(),
        training.optimiser,
        training.schedule,
        StepOptions(seed=3, accumulate=2, clip_norm=1.0, counts=task.counts),
        steps=steps,
        progress=training.progress,
        average=training.average,
    )


SUBJECTS: dict[str, Callable[[Path, int], None]] = {"lstm": train_lstm, "decoder": train_decoder, "gpt": train_gpt}
"""Each starts in a folder, or goes on with what is there, until so many steps are done."""


def difference(first: Path, second: Path) -> str:
    """Where two trainings do not agree to the bit, by what they left on disk; nothing where they do."""
    if (there := measured(first)) != (here := measured(second)):
        step = next(
            (number for number, (a, b) in enumerate(zip(there, here, strict=False)) if a != b),
            min(len(there), len(here)),
        )
        return f"record {step} of {len(there)} and {len(here)}"
    if (first / WEIGHTS).exists() != (second / WEIGHTS).exists():
        return f"{WEIGHTS} is in one of them alone"
    if (first / WEIGHTS).exists() and (name := unequal(read_weights(first / WEIGHTS), read_weights(second / WEIGHTS))):
        return f"{WEIGHTS}: {name}"
    return checkpoint_difference(checkpoint_folders(first)[0], checkpoint_folders(second)[0])


def checkpoint_difference(first: Path, second: Path) -> str:
    if first.name != second.name:
        return f"{first.name} and {second.name}"
    groups = {path.name.split(".")[0].split("-")[0] for path in first.glob("*.safetensors")}
    for group in sorted(groups):
        if name := unequal(read_group(first, group), read_group(second, group)):
            return f"{group} of {first.name}: {name}"
    there, here = (
        {k: v for k, v in read_json(path / TRAINING).items() if k not in BY_THE_CLOCK} for path in (first, second)
    )
    if here["best"]["evaluated"] < here["step"]:  # stopped while it was evaluated, which is done whenever it goes on
        there, here = (
            {k: v for k, v in about.items() if k not in ("best", "schedule", "average")} for about in (there, here)
        )
    return (
        ""
        if there == here
        else f"{TRAINING} of {first.name}: {[name for name in there if there[name] != here.get(name)]}"
    )


def unequal(first: dict[str, Tensor], second: dict[str, Tensor]) -> str:
    """The first tensor that is not bit for bit the same."""
    if first.keys() != second.keys():
        return f"other names: {sorted(first.keys() ^ second.keys())}"
    return next((name for name, tensor in first.items() if not torch.equal(tensor, second[name])), "")


def measured(folder: Path) -> list[str]:
    """All that was recorded, but for what depends on the clock."""
    return [
        json.dumps({k: v for k, v in record.items() if k not in BY_THE_CLOCK}, sort_keys=True)
        for record in read_metrics(folder)
    ]


class Pair(NamedTuple):
    """Sentences and their reversals; what is read of a reversal is one behind what is predicted."""

    source: Tensor  # (batch, source length)
    source_mask: Tensor
    tokens: Tensor  # (batch, length)
    targets: Tensor
    mask: Tensor
    fresh: bool = True


class Reversal(nn.Module):
    """A bidirectional GRU reads, a GRU with additive attention writes the same backwards (the form of Bahdanau et al.
    2015)."""

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
        values, (ahead, back) = self.encoder(
            self.source_embedding(batch.source, torch.zeros_like(batch.source)), batch.source_mask
        )
        memory = Memory(values, batch.source_mask, torch.tanh(self.bridge(torch.cat([ahead.cell, back.cell], -1))))
        start = self.decoder.initial_state(len(batch.tokens), memory, like=values)
        y, _ = self.decoder(self.target_embedding(batch.tokens, torch.zeros_like(batch.tokens)), batch.mask, start)
        targets = batch.targets.masked_fill(~batch.mask, -100)
        loss = F.cross_entropy(self.output(y).flatten(0, 1), targets.flatten(), reduction="sum")
        return {"loss": Term(loss, self.counts(batch)["loss"])}, None

    def counts(self, batch: Pair) -> dict[str, Tensor]:
        return {"loss": batch.mask.sum()}


def pairs(*numbers: int, size: int, longest: int = 6) -> Pair:
    """Random sentences of 1 to `longest` symbols and their reversals, the same for the same numbers."""
    generator = torch.Generator().manual_seed(sum((number + 1) * 1009**place for place, number in enumerate(numbers)))
    lengths = torch.randint(1, longest + 1, (size,), generator=generator).tolist()
    source = torch.randint(FIRST_SYMBOL, FIRST_SYMBOL + SYMBOLS, (size, longest), generator=generator).tolist()
    sentences = [row[:length] for row, length in zip(source, lengths, strict=True)]
    read, read_mask = padded(sentences)
    whole, mask = padded([[START, *reversed(sentence), END] for sentence in sentences])
    return Pair(read, read_mask, whole[:, :-1], whole[:, 1:], mask[:, 1:])


def padded(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    tensor = nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
    return tensor, torch.arange(tensor.shape[1]) < torch.tensor([len(row) for row in rows])[:, None]
