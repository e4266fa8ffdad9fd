"""Three small trainings that faults are tried on, which start or resume from disk, and the comparison of their results.

An LSTM with carried state on streams and a GPT on windows are whole runs. A Bahdanau decoder, which no recipe trains
yet, uses the same loop and checkpoints as a run. All of them have dropout, averaged weights and a schedule, which in
the LSTM and the decoder depends on the observed loss.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch._dynamo  # imported here so that not every child imports it in its first step
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
TIMINGS = ("seconds", "tokens_per_second")
START, END, FIRST_SYMBOL, SYMBOLS = 0, 1, 2, 6


def train_lstm(folder: Path, steps: int) -> None:
    train_recipe("text-lstm", [*LSTM, f"training.steps={steps}"], folder)


def train_gpt(folder: Path, steps: int) -> None:
    train_recipe("text-gpt", [*GPT, f"training.steps={steps}"], folder)


def train_recipe(recipe: str, settings: list[str], folder: Path) -> None:
    """Start or resume the run in a folder, as the command does. Its text and its cache are beside the folder."""
    os.environ["CLEW_CACHE"] = str(folder.parent / "cache")
    run_recipe(recipe, [f"data.train={text_beside(folder)}", *settings], out=folder, resume=is_run(folder))


def text_beside(folder: Path) -> Path:
    text = folder.parent / "story.txt"
    if not text.exists():
        temporary = text.with_suffix(f".{os.getpid()}")
        temporary.write_text(TEXT, encoding="utf-8")
        temporary.replace(text)
    return text


def train_decoder(folder: Path, steps: int) -> None:
    training = decoder_training()
    checkpoint, _ = find_checkpoint(folder)
    folder.mkdir(exist_ok=True)
    if checkpoint is not None:
        load_checkpoint(checkpoint, training)
    truncate_metrics(folder, training.progress.step if checkpoint is not None else -1)
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
"""Each starts in a folder, or resumes from it, and trains up to the given number of steps."""


def difference(first: Path, second: Path) -> str:
    """Describe the first difference between the files of two trainings, or return an empty string if they are equal."""
    records, other_records = recorded_metrics(first), recorded_metrics(second)
    if records != other_records:
        index = next(
            (number for number, (a, b) in enumerate(zip(records, other_records, strict=False)) if a != b),
            min(len(records), len(other_records)),
        )
        return f"record {index} of {len(records)} and {len(other_records)}"
    if (first / WEIGHTS).exists() != (second / WEIGHTS).exists():
        return f"{WEIGHTS}, which only one of them has"
    if (first / WEIGHTS).exists() and (
        name := unequal_tensor(read_weights(first / WEIGHTS), read_weights(second / WEIGHTS))
    ):
        return f"{WEIGHTS}: {name}"
    return checkpoint_difference(checkpoint_folders(first)[0], checkpoint_folders(second)[0])


def checkpoint_difference(first: Path, second: Path) -> str:
    if first.name != second.name:
        return f"{first.name} and {second.name}"
    groups = {path.name.split(".")[0].split("-")[0] for path in first.glob("*.safetensors")}
    for group in sorted(groups):
        if name := unequal_tensor(read_group(first, group), read_group(second, group)):
            return f"{group} of {first.name}: {name}"
    values, other_values = (
        {k: v for k, v in read_json(path / TRAINING).items() if k not in TIMINGS} for path in (first, second)
    )
    if other_values["best"]["evaluated"] < other_values["step"]:  # stopped during an evaluation, repeated on resuming
        values, other_values = (
            {k: v for k, v in each.items() if k not in ("best", "schedule", "average")}
            for each in (values, other_values)
        )
    changed = [name for name in values if values[name] != other_values.get(name)]
    return f"{TRAINING} of {first.name}: {changed}" if values != other_values else ""


def unequal_tensor(first: dict[str, Tensor], second: dict[str, Tensor]) -> str:
    """Return the name of the first tensor that is not bit-identical, or an empty string."""
    if first.keys() != second.keys():
        return f"different names: {sorted(first.keys() ^ second.keys())}"
    return next((name for name, tensor in first.items() if not torch.equal(tensor, second[name])), "")


def recorded_metrics(folder: Path) -> list[str]:
    """Return all records of metrics, without timings."""
    return [
        json.dumps({k: v for k, v in record.items() if k not in TIMINGS}, sort_keys=True)
        for record in read_metrics(folder)
    ]


class Pair(NamedTuple):
    """Sentences and their reversals. The decoder's inputs are its targets, shifted by one."""

    source: Tensor  # (batch, source length)
    source_mask: Tensor
    tokens: Tensor  # (batch, length)
    targets: Tensor
    mask: Tensor
    fresh: bool = True


class Reversal(nn.Module):
    """A bidirectional GRU reads, and a GRU with additive attention writes the reversal (Bahdanau et al. 2015)."""

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
        values, (forward, backward) = self.encoder(
            self.source_embedding(batch.source, torch.zeros_like(batch.source)), batch.source_mask
        )
        memory = Memory(
            values, batch.source_mask, torch.tanh(self.bridge(torch.cat([forward.cell, backward.cell], -1)))
        )
        start = self.decoder.initial_state(len(batch.tokens), memory, like=values)
        y, _ = self.decoder(self.target_embedding(batch.tokens, torch.zeros_like(batch.tokens)), batch.mask, start)
        targets = batch.targets.masked_fill(~batch.mask, -100)
        loss = F.cross_entropy(self.output(y).flatten(0, 1), targets.flatten(), reduction="sum")
        return {"loss": Term(loss, self.counts(batch)["loss"])}, None

    def counts(self, batch: Pair) -> dict[str, Tensor]:
        return {"loss": batch.mask.sum()}


def pairs(*numbers: int, size: int, longest: int = 6) -> Pair:
    """Draw sentences of 1 to `longest` symbols and their reversals. `numbers` is the seed."""
    generator = torch.Generator().manual_seed(sum((number + 1) * 1009**index for index, number in enumerate(numbers)))
    lengths = torch.randint(1, longest + 1, (size,), generator=generator).tolist()
    source = torch.randint(FIRST_SYMBOL, FIRST_SYMBOL + SYMBOLS, (size, longest), generator=generator).tolist()
    sentences = [row[:length] for row, length in zip(source, lengths, strict=True)]
    source_tokens, source_mask = pad(sentences)
    target_tokens, mask = pad([[START, *reversed(sentence), END] for sentence in sentences])
    return Pair(source_tokens, source_mask, target_tokens[:, :-1], target_tokens[:, 1:], mask[:, 1:])


def pad(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    tensor = nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
    return tensor, torch.arange(tensor.shape[1]) < torch.tensor([len(row) for row in rows])[:, None]
