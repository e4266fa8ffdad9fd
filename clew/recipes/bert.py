"""Masked language models for fine-tuning (BERT, Devlin et al. 2019): `transfer.from=RUN` fine-tunes one on any task."""

from typing import Any

from clew.recipes.pretraining import LEARN_FROM
from clew.recipes.recipe import Recipe


def bert(
    about: str,
    data: dict[str, Any],
    model: dict[str, Any],
    training: dict[str, Any],
    *,
    size: int,
    learn_from: int | None = None,
    published: str = "",
    takes: str = "",
) -> Recipe:
    """The authors' training: Adam with weight decay 0.01, and a learning rate that rises and then falls linearly."""
    return Recipe(
        about,
        {
            "data": data,
            "text": {"tokenizer": "wordpiece", "size": size, "lowercase": True, "learn_from": learn_from},
            "model": {"family": "bert", **model},
            "task": {"name": "masked_language_model"},
            "training": {"optimiser": {"name": "adamw", "beta2": 0.999, "eps": 1e-6, "weight_decay": 0.01}, **training},
        },
        published=published,
        takes=takes,
    )


def rising(warmup: float) -> dict[str, Any]:
    return {"name": "linear", "warmup": warmup}


# Not compiled: batches have several shapes, and code would be compiled again for each.
GPU = {"precision": "bfloat16", "workers": 4}

SHAKESPEARE = bert(
    "A small BERT on the speeches of Shakespeare.",
    {"corpus": "tinyshakespeare"},
    {"dim": 128, "num_layers": 2, "num_heads": 4, "max_length": 128, "dropout": 0.1, "attention_dropout": 0.1},
    {
        "steps": 1500,
        "batch_tokens": 2048,
        "length": 64,
        "learning_rate": 2e-3,
        "schedule": rising(0.1334),
        "evaluate_every": 500,
    },
    size=2048,
    takes="6 minutes on two cores",
)
OWN = bert(
    "A BERT on your own documents: data.train=FILE, separated by blank lines, or JSON lines.",
    {},
    {"dim": 256, "num_layers": 4, "num_heads": 4, "max_length": 512},
    {
        "steps": 20_000,
        "batch_tokens": 8192,
        "length": 128,
        "learning_rate": 5e-4,
        "schedule": rising(0.05),
        "evaluate_every": 1000,
    },
    size=8192,
)
SMALL = bert(
    "A BERT of 8 layers of 384 on your own folder of text: data.train=FOLDER. For a GPU.",
    {},
    {"dim": 384, "num_layers": 8, "num_heads": 6, "max_length": 512},
    {
        "steps": 50_000,
        "batch_tokens": 32_768,
        "length": 128,
        "learning_rate": 5e-4,
        "schedule": rising(0.05),
        "evaluate_every": 2500,
        **GPU,
    },
    size=16_384,
    learn_from=LEARN_FROM,
)
PUBLISHED = {
    "steps": 1_000_000,
    "batch_size": 256,
    "length": 512,
    "schedule": rising(0.01),
    "evaluate_every": 10_000,
    **GPU,
}
BASE = bert(
    "BERT base as published, on your own documents: data.train=FOLDER. For several GPUs.",
    {},
    {"dim": 768, "num_layers": 12, "num_heads": 12, "max_length": 512},
    {**PUBLISHED, "learning_rate": 1e-4},
    size=30_522,
    learn_from=LEARN_FROM,
    published="GLUE 79.6 fine-tuned, 110 million parameters (Devlin et al. 2019)",
)
LARGE = bert(
    "BERT large as published, on your own documents: data.train=FOLDER. For several GPUs.",
    {},
    {"dim": 1024, "num_layers": 24, "num_heads": 16, "max_length": 512},
    {**PUBLISHED, "learning_rate": 1e-4},
    size=30_522,
    learn_from=LEARN_FROM,
    published="GLUE 82.1 fine-tuned, 340 million parameters (Devlin et al. 2019)",
)
