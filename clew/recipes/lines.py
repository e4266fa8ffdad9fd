"""Recognition of lines of text, read column by column: synthetic ones for two CPU cores, and the user's pictures."""

from typing import Any

from clew.recipes.recipe import Recipe


def reader_of_lines(about: str, data: dict[str, Any], *, steps: int) -> Recipe:
    """A BiLSTM over groups of three columns, trained with CTC on characters (Graves et al. 2009)."""
    return Recipe(
        about,
        {
            "data": data,
            "text": {"tokenizer": "character"},
            "model": {"family": "recurrent", "cell": "lstm", "bidirectional": True, "dim": 96, "num_layers": 1},
            "task": {"name": "transcription", "input": {"name": "columns", "height": 32, "stack": 3}},
            "training": {
                "steps": steps,
                "batch_size": 8,
                "learning_rate": 5e-3,
                "optimiser": {"name": "adamw", "weight_decay": 0.01},
                "schedule": {"name": "cosine", "warmup": 0.1, "floor": 0.02},
                "evaluate_every": max(steps // 4, 1),
                "log_every": 50,
            },
        },
    )


DRAWN = reader_of_lines(
    "A BiLSTM with CTC that reads synthetic pictures of text lines.",
    {"corpus": "lines", "strings": 1500, "longest": 2},
    steps=1200,
)
OWN = reader_of_lines(
    "Your own pictures of text lines: a table with columns for the picture and for its text.", {}, steps=3000
)
