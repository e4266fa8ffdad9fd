"""Sounds: classification of spoken digits and transcription of digit strings with attention, for two CPU cores; and the
user's sounds."""

from typing import Any

from clew.recipes.recipe import Recipe
from clew.recipes.speech import speech_settings


def classifier(about: str, data: dict[str, Any], *, steps: int) -> Recipe:
    """A BiLSTM over groups of three log-mel frames, with max pooling."""
    return Recipe(
        about,
        {
            "data": data,
            "model": {
                "family": "recurrent",
                "cell": "lstm",
                "bidirectional": True,
                "dim": 128,
                "num_layers": 1,
                "dropout": 0.3,
            },
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
            "training": speech_settings(steps),
        },
    )


DIGITS = classifier(
    "A BiLSTM that classifies spoken digits, on the embedded recordings; the test speaker is new.",
    {"corpus": "digits-sample"},
    steps=600,
)
CLASSIFY = classifier("Your own sounds: a folder with one subfolder per class, or a table.", {}, steps=2000)


def listener(about: str, data: dict[str, Any], *, steps: int) -> Recipe:
    """A small Listen, attend and spell (Chan et al. 2016): groups of four log-mel frames, two BiLSTMs of which the
    upper one halves the length, and an LSTM with attention that writes letters."""
    return Recipe(
        about,
        {
            "data": data,
            "text": {"tokenizer": "character"},
            "model": {
                "family": "seq2seq",
                "cell": "lstm",
                "dim": 128,
                "embedding_dim": 64,
                "encoder_layers": 2,
                "pyramid": 1,
                "attention": "before",
                "readout": "tanh",
                "bridge": "zero",
                "dropout": 0.2,
            },
            "task": {
                "name": "listening",
                "input": {
                    "name": "log_mel",
                    "num_mels": 40,
                    "stack": 4,
                    "time_masks": 2,
                    "longest_mask": 6,
                    "frequency_masks": 1,
                },
            },
            "training": speech_settings(steps),
            "decoding": {"method": "greedy", "max_new": 200},
        },
    )


DIGITS_LAS = listener(
    "Listen, attend and spell on strings of spoken digits, from the embedded recordings.",
    {"corpus": "digits-sample", "strings": 2000, "longest": 3},
    steps=800,
)
LISTEN = listener("Your own recordings, transcribed with attention: a table of sound files and texts.", {}, steps=4000)
