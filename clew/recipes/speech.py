"""Speech: spoken digits of the embedded sample for two CPU cores, whole corpora for a GPU, and the user's
recordings."""

from typing import Any

from clew.recipes.recipe import Recipe


def speech_settings(steps: int) -> dict[str, Any]:
    return {
        "steps": steps,
        "batch_size": 32,
        "learning_rate": 3e-3,
        "optimiser": {"name": "adamw", "weight_decay": 0.01},
        "schedule": {"name": "cosine", "warmup": 0.1, "floor": 0.02},
        "evaluate_every": max(steps // 6, 1),
        "log_every": 25,
    }


def transcriber(
    about: str, data: dict[str, Any], *, steps: int, tokenizer: str = "character", published: str = ""
) -> Recipe:
    """A BiLSTM over groups of three log-mel frames, trained with CTC; levels 40 dB below the maximum count as
    silence."""
    return Recipe(
        about,
        {
            "data": data,
            "text": {"tokenizer": tokenizer},
            "model": {
                "family": "recurrent",
                "cell": "lstm",
                "bidirectional": True,
                "dim": 256,
                "num_layers": 2,
                "dropout": 0.2,
            },
            "task": {
                "name": "transcription",
                "input": {
                    "name": "log_mel",
                    "num_mels": 40,
                    "stack": 3,
                    "range_db": 40.0,
                    "time_masks": 2,
                    "longest_mask": 8,
                    "frequency_masks": 1,
                },
            },
            "training": speech_settings(steps),
        },
        published=published,
    )


DIGITS = transcriber(
    "A BiLSTM with CTC that transcribes strings of spoken digits, on the embedded recordings.",
    {"corpus": "digits-sample", "strings": 2000, "longest": 5},
    steps=600,
    tokenizer="word",
)
FSDD = transcriber(
    "The same on four speakers of the Free Spoken Digit Dataset; the fifth is the test part.",
    {"corpus": "fsdd", "strings": 20000, "shortest": 3, "longest": 7, "unseen": False, "test_speaker": "yweweler"},
    steps=3000,
    tokenizer="word",
)
OWN = transcriber("Your own recordings: a table with columns for the sound file and for its text.", {}, steps=2000)
