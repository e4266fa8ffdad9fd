"""The two models of the tour: an LSTM and a GPT of about the same size, trained from scratch on the characters of
Shakespeare."""

from pathlib import Path
from typing import NamedTuple

from clew.instruments.subjects.corpus_text import corpus_text
from clew.runs.loaded import Run
from clew.tour.experiment import Report, Scale
from clew.tour.training import train_recipe


class Models(NamedTuple):
    """The runs of both models, and the scores of each (`valid.loss`, `valid.bits_per_character`)."""

    lstm: Run
    gpt: Run
    scores: dict[str, dict[str, float]]

    def passage(self, characters: int) -> str:
        """Return the beginning of the held-out text."""
        return corpus_text(self.lstm, "valid", characters)


def train_models(folder: Path, scale: Scale, seed: int, report: Report) -> Models:
    """Train both models in folders below `folder`; existing runs are resumed."""
    runs, scores = {}, {}
    for name, (recipe, settings) in MODELS.items():
        report(f"{name}: {recipe} with {' '.join((*settings, *SIZES[scale][name]))}")
        assignments = (*settings, *SIZES[scale][name], f"seed={seed}")
        runs[name], scores[name] = train_recipe(
            recipe, assignments, name=name, report=report, folder=folder / f"{name}-{scale}-{seed}"
        )
    return Models(runs["lstm"], runs["gpt"], scores)


MODELS = {
    "lstm": ("shakespeare-lstm", ("training.schedule.warmup=50",)),
    "gpt": ("shakespeare-gpt", ("training.schedule.warmup=50",)),
}
QUICK = ("training.steps=60", "training.evaluate_every=30", "data.valid_fraction=0.01")
SIZES: dict[Scale, dict[str, tuple[str, ...]]] = {
    "quick": {
        "lstm": (*QUICK, "model.dim=16", "model.embedding_dim=16", "training.batch_size=8"),
        "gpt": (
            *QUICK,
            "model.dim=16",
            "model.num_layers=2",
            "model.num_heads=2",
            "training.length=64",
            "training.batch_size=8",
        ),
    },
    "tour": {
        "lstm": ("model.dim=320", "training.steps=1000", "training.evaluate_every=250"),
        "gpt": ("model.num_layers=3", "training.steps=900", "training.evaluate_every=225"),
    },
    "full": {"lstm": (), "gpt": ()},
}
"""Overrides of the size and the number of steps; `full` keeps the settings of the recipes."""
