"""Sounds: which digit is spoken, for two CPU cores, and sounds of one's own."""

from typing import Any

from clew.recipes.recipe import Recipe


def training(steps: int) -> dict[str, Any]:
    return {
        "steps": steps,
        "batch_size": 32,
        "learning_rate": 3e-3,
        "optimiser": {"name": "adamw", "weight_decay": 0.01},
        "schedule": {"name": "cosine", "warmup": 0.1, "floor": 0.02},
        "evaluate_every": max(steps // 6, 1),
        "log_every": 25,
    }


def classifier(about: str, data: dict[str, Any], *, steps: int) -> Recipe:
    """A BiLSTM over log-mel frames, three to a place, the maximum of whose vectors is classified."""
    return Recipe(
        about,
        {
            "data": data,
            "model": {"family": "recurrent", "cell": "lstm", "bidirectional": True, "dim": 128, "num_layers": 1, "dropout": 0.3},
            "task": {
                "name": "sound_classification",
                "input": {
                    "name": "log_mel",
                    "num_mels": 40,
                    "stack": 3,
                    "time_masks": 1,
                    "longest_mask": 4,
                    "frequency_masks": 2,
                    "vocal_tract": 0.2,
                },
                "pooling": "max",
                "dropout": 0.3,
            },
            "training": training(steps),
        },
    )


DIGITS = classifier(
    "A BiLSTM that tells which digit is spoken, on the embedded recordings; the test speaker is new.",
    {"corpus": "digits-sample"},
    steps=600,
)
CLASSIFY = classifier("Sounds of your own: a folder with one for each class, or a table.", {}, steps=2000)
