"""Bidirectional language models that give contextual word vectors (ELMo, Peters et al. 2018): `embedding.from=RUN` uses
them in another run."""

from typing import Any

from clew.recipes.recipe import Recipe


def elmo(
    about: str,
    data: dict[str, Any],
    dim: int,
    filters: list[int],
    training: dict[str, Any],
    *,
    predicted: int,
    warmup: float,
    highways: int = 1,
    dropout: float = 0.1,
    takes: str = "",
) -> Recipe:
    """Words from their letters only, as in the paper: filters of widths 1, 2, 3, ... under highway layers. All words
    are read, and frequent ones are predicted."""
    reader = {
        "name": "cnn",
        "letter_dim": 16,
        "widths": [*range(1, len(filters) + 1)],
        "filters": filters,
        "highways": highways,
    }
    return Recipe(
        about,
        {
            "data": data,
            "text": {"tokenizer": "word"},
            "embedding": {"words": False, "characters": reader, "characters_dim": dim},
            "model": {"family": "elmo", "dim": dim, "dropout": dropout},
            "task": {"name": "bidirectional_language_model", "predicted": predicted},
            "training": {
                "optimiser": {"name": "adamw", "weight_decay": 0.01},
                "schedule": {"name": "cosine", "warmup": warmup, "floor": 0.02},
                **training,
            },
        },
        takes=takes,
    )


EWT = elmo(
    "A bidirectional language model with words from letters (ELMo) on the text of EWT's sample.",
    {"corpus": "ewt-sample"},
    128,
    [16, 32, 48, 64, 96],
    {"steps": 800, "batch_size": 32, "length": 32, "learning_rate": 3e-3, "evaluate_every": 100},
    predicted=3500,
    warmup=0.125,
    dropout=0.3,
    takes="10 minutes on two cores",
)
EWT_FULL = elmo(
    "The same, wider, on the full text of UD English EWT. For a GPU.",
    {"corpus": "ewt"},
    384,
    [32, 32, 64, 128, 256, 512],
    {
        "steps": 1000,
        "batch_size": 64,
        "length": 64,
        "learning_rate": 2e-3,
        "evaluate_every": 100,
        "precision": "tf32",
    },
    predicted=10_000,
    warmup=0.1,
    highways=2,
    dropout=0.5,
)
OWN = elmo(
    "A bidirectional language model (ELMo) on your own text: data.train=FILE, one sentence per line.",
    {},
    256,
    [32, 32, 64, 128, 256],
    {"steps": 3000, "batch_size": 32, "length": 64, "learning_rate": 2e-3, "evaluate_every": 300},
    predicted=10_000,
    warmup=0.0334,
    dropout=0.2,
)
