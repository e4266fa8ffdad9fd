"""Translation: embedded Tatoeba pairs for two CPU cores, Multi30k for a GPU, and pairs of one's own."""

from typing import Any

from clew.recipes.recipe import Recipe

BEAM = {"method": "beam", "beams": 5, "max_new": 100}

SMALL_TRANSFORMER: dict[str, Any] = {
    "family": "transformer",
    "dim": 256,
    "num_layers": 3,
    "num_heads": 4,
    "hidden_dim": 1024,
    "wiring": "pre_norm",
    "shared_embeddings": True,
    "dropout": 0.3,
}
SMALL_LSTM: dict[str, Any] = {
    "family": "seq2seq",
    "cell": "lstm",
    "dim": 256,
    "attention": "after",
    "score": "general",
    "readout": "none",
    "dropout": 0.3,
}
SUBWORDS = {"tokenizer": "bpe", "size": 4000, "joint": True}

TATOEBA_TRANSFORMER = Recipe(
    "A small Transformer from German to English, on the embedded Tatoeba pairs.",
    {
        "data": {"corpus": "tatoeba-sample", "source": "de", "target": "en"},
        "text": SUBWORDS,
        "model": SMALL_TRANSFORMER,
        "task": {"name": "translation", "label_smoothing": 0.1},
        "training": {
            "steps": 1500,
            "batch_tokens": 4096,
            "learning_rate": 2e-3,
            "schedule": {"name": "inverse_sqrt", "warmup": 400},
            "evaluate_every": 250,
            "log_every": 25,
        },
        "decoding": BEAM,
    },
)
TATOEBA_LSTM = Recipe(
    "An LSTM with Luong's attention from German to English, on the embedded Tatoeba pairs.",
    {
        "data": {"corpus": "tatoeba-sample", "source": "de", "target": "en"},
        "text": SUBWORDS,
        "model": SMALL_LSTM,
        "task": {"name": "translation", "label_smoothing": 0.1},
        "training": {
            "steps": 1500,
            "batch_tokens": 4096,
            "learning_rate": 2e-3,
            "schedule": {"name": "cosine", "warmup": 100, "floor": 0.02},
            "evaluate_every": 250,
            "log_every": 25,
        },
        "decoding": BEAM,
    },
)
