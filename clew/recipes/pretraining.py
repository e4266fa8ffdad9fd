"""Pre-training on the user's folder of text, `data.train=FOLDER`, with the settings of GPT-2 and Llama, for GPUs."""

from typing import Any

from clew.recipes.recipe import Recipe

LEARN_FROM = 10**9
"""The number of characters for training the vocabulary; more take hours and change little."""


def gpt2(about: str, dim: int, num_layers: int, num_heads: int, learning_rate: float) -> Recipe:
    """The model of Radford et al. (2019). They do not describe the training, so the rest follows Brown et al.
    (2020)."""
    return Recipe(
        about,
        {
            "data": {"valid_fraction": 0.005},
            "text": {"tokenizer": "bpe", "size": 50257, "learn_from": LEARN_FROM},
            "model": {
                "family": "gpt",
                "dim": dim,
                "num_layers": num_layers,
                "num_heads": num_heads,
                "max_length": 1024,
                "dropout": 0.1,
            },
            "task": {"tied": True, "bias": False},
            "training": large_batches(1024, learning_rate),
            "decoding": {"temperature": 0.8, "top_p": 0.95},
        },
    )


def large_batches(length: int, learning_rate: float) -> dict[str, Any]:
    """Half a million tokens per step, which makes 300 billion in 600,000 steps."""
    return {
        "steps": 600_000,
        "batch_size": 2**19 // length,
        "accumulate": 32,
        "length": length,
        "optimiser": {"name": "adamw", "beta2": 0.95, "weight_decay": 0.1},
        "learning_rate": learning_rate,
        "schedule": {"name": "cosine", "warmup": 0.001167, "floor": 0.1},
        "precision": "bfloat16",
        "compile": True,
        "workers": 2,
        "evaluate_every": 2000,
        "evaluate_batch": 16,
    }


GPT2 = gpt2("GPT-2 (124 million parameters) on your own folder of text: data.train=FOLDER.", 768, 12, 12, 6e-4)
GPT2_MEDIUM = gpt2("GPT-2 medium (355 million parameters): data.train=FOLDER.", 1024, 24, 16, 3e-4)
LLAMA_1B = Recipe(
    "Llama 3.2's 1B architecture on your own folder of text: data.train=FOLDER.",
    {
        "data": {"valid_fraction": 0.005},
        "text": {"tokenizer": "bpe", "size": 128_256, "learn_from": LEARN_FROM},
        "model": {
            "family": "llama",
            "dim": 2048,
            "num_layers": 16,
            "num_heads": 32,
            "num_kv_heads": 8,
            "head_dim": 64,
            "hidden_dim": 8192,
            "rotary_base": 500_000.0,
            "max_length": 8192,
        },
        "task": {"tied": True, "bias": False},
        "training": {**large_batches(2048, 3e-4), "documents": "apart", "recompute": True},
        "decoding": {"temperature": 0.8, "top_p": 0.95},
    },
)
