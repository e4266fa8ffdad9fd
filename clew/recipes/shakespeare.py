"""Characters of Tiny Shakespeare, which ships with clew: small models for a laptop, and nanoGPT's setting."""

from typing import Any

from clew.recipes.recipe import Recipe

DATA = {"corpus": "tinyshakespeare"}
SAMPLE = {"temperature": 0.8, "max_new": 400}


def recurrent(cell: Any, dim: int, about: str, learning_rate: float) -> Recipe:
    return Recipe(
        about,
        {
            "data": DATA,
            "model": {"family": "recurrent", "cell": cell, "dim": dim, "embedding_dim": 128},
            "training": {
                "steps": 1500,
                "batch_size": 32,
                "length": 64,
                "batching": "streams",
                "optimiser": {"name": "adamw", "weight_decay": 0.0},
                "learning_rate": learning_rate,
                "schedule": {"name": "cosine", "warmup": 0.067, "floor": 0.02},
                "evaluate_every": 500,
            },
            "decoding": SAMPLE,
        },
        takes="3 minutes on two cores",
    )


def transformer(model: dict[str, Any], about: str) -> Recipe:
    return Recipe(
        about,
        {
            "data": DATA,
            "model": model,
            "task": {"tied": True, "bias": False},
            "training": {
                "steps": 1200,
                "batch_size": 16,
                "length": 128,
                "learning_rate": 3e-3,
                "schedule": {"name": "cosine", "warmup": 0.084, "floor": 0.02},
                "evaluate_every": 400,
            },
            "decoding": SAMPLE,
        },
        takes="3 minutes on two cores",
    )


# The widths give the three the same number of parameters, 1.36 million, so that they can be compared.
ELMAN = recurrent("elman", 1067, "A simple recurrent network on the characters of Shakespeare.", 1e-3)
LSTM = recurrent("lstm", 512, "An LSTM on the characters of Shakespeare: the first thing to try.", 2e-3)
GRU = recurrent("gru", 598, "A gated recurrent unit on the characters of Shakespeare.", 2e-3)
GPT = transformer(
    {"family": "gpt", "dim": 128, "num_layers": 4, "num_heads": 4, "max_length": 128},
    "A small GPT on the characters of Shakespeare.",
)
LLAMA = transformer(
    {"family": "llama", "dim": 128, "num_layers": 4, "num_heads": 4}, "A small Llama on the characters of Shakespeare."
)
GPT_FULL = Recipe(
    "nanoGPT's character model: 6 layers of 384 with a context of 256. For a GPU.",
    {
        "data": DATA,
        "model": {
            "family": "gpt",
            "dim": 384,
            "num_layers": 6,
            "num_heads": 6,
            "max_length": 256,
            "bias": False,
            "dropout": 0.2,
        },
        "task": {"tied": True, "bias": False},
        "training": {
            "steps": 5000,
            "batch_size": 64,
            "length": 256,
            "optimiser": {"name": "adamw", "beta2": 0.99, "weight_decay": 0.1},
            "learning_rate": 1e-3,
            "schedule": {"name": "cosine", "warmup": 0.02, "floor": 0.1},
            "precision": "bfloat16",
            "compile": True,
            "evaluate_every": 250,
        },
        "decoding": SAMPLE,
    },
    published="validation loss 1.4697 nats per character (nanoGPT's README)",
    takes="2 minutes on an H200",
)
