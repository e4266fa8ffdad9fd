"""A text of one's own: `data.train=FILE`."""

from clew.recipes.recipe import Recipe

LSTM = Recipe(
    "An LSTM on the characters of a text of your own: data.train=FILE.",
    {
        "model": {"family": "recurrent", "cell": "lstm", "dim": 512, "embedding_dim": 128, "dropout": 0.1},
        "training": {
            "steps": 2000,
            "batch_size": 32,
            "length": 64,
            "batching": "streams",
            "optimiser": {"name": "adamw", "weight_decay": 0.0},
            "learning_rate": 2e-3,
            "schedule": {"name": "cosine", "warmup": 0.05, "floor": 0.02},
        },
        "decoding": {"temperature": 0.8},
    },
)
GPT = Recipe(
    "A GPT on the subwords (byte-level BPE) of a text of your own: data.train=FILE.",
    {
        "text": {"tokenizer": "bpe", "size": 2048},
        "model": {"family": "gpt", "dim": 192, "num_layers": 4, "num_heads": 6, "max_length": 128, "dropout": 0.1},
        "task": {"tied": True, "bias": False},
        "training": {
            "steps": 2000,
            "batch_size": 16,
            "length": 128,
            "learning_rate": 2e-3,
            "schedule": {"name": "cosine", "warmup": 0.05, "floor": 0.02},
        },
        "decoding": {"temperature": 0.8, "top_p": 0.95},
    },
)
LLAMA = Recipe(
    "A Llama on the subwords of a text of your own, its documents apart: data.train=FILE.",
    {
        "text": {"tokenizer": "bpe", "size": 2048},
        "model": {"family": "llama", "dim": 192, "num_layers": 4, "num_heads": 6, "num_kv_heads": 2, "dropout": 0.1},
        "task": {"tied": True, "bias": False},
        "training": {
            "steps": 2000,
            "batch_size": 16,
            "length": 128,
            "documents": "apart",
            "learning_rate": 2e-3,
            "schedule": {"name": "cosine", "warmup": 0.05, "floor": 0.02},
        },
        "decoding": {"temperature": 0.8, "top_p": 0.95},
    },
)
