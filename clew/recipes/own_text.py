"""Language models on the user's text: `data.train=FILE`."""

from clew.recipes.recipe import Recipe

LSTM = Recipe(
    "An LSTM on the characters of your own text: data.train=FILE.",
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
    "A GPT on the subwords (byte-level BPE) of your own text: data.train=FILE.",
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
    "A Llama on the subwords of your own text, with separate documents: data.train=FILE.",
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
