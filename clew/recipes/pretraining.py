"""Pre-training on a folder of text of one's own, `data.train=FOLDER`: GPT-2's and Llama's settings, for GPUs."""

from typing import Any

from clew.recipes.recipe import Recipe

LEARN_FROM = 10**9
"""Characters that a vocabulary is learnt from: more take hours and change little."""


def gpt2(about: str, dim: int, num_layers: int, num_heads: int, learning_rate: float) -> Recipe:
    """Radford et al. (2019) for the model; they do not tell how it was trained, so that the rest is as in Brown et al. (2020)."""
    return Recipe(
        about,
        {
            "data": {"valid_fraction": 0.005},
            "text": {"tokenizer": "bpe", "size": 50257, "learn_from": LEARN_FROM},
            "model": {"family": "gpt", "dim": dim, "num_layers": num_layers, "num_heads": num_heads, "max_length": 1024, "dropout": 0.1},
            "task": {"tied": True, "bias": False},
            "training": large_batches(1024, learning_rate),
            "decoding": {"temperature": 0.8, "top_p": 0.95},
        },
    )


def large_batches(length: int, learning_rate: float) -> dict[str, Any]:
    """Half a million tokens a step, and with 600,000 steps 300 billion."""
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


GPT2 = gpt2("GPT-2 (124 million parameters) on a folder of text of your own: data.train=FOLDER.", 768, 12, 12, 6e-4)
GPT2_MEDIUM = gpt2("GPT-2 medium (355 million parameters): data.train=FOLDER.", 1024, 24, 16, 3e-4)
LLAMA_1B = Recipe(
    "Llama 3.2's 1B architecture on a folder of text of your own: data.train=FOLDER.",
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
