"""Tagging: EWT's embedded sample for two CPU cores, whole corpora for a GPU, and the user's words (Lample et al.
2016)."""

from typing import Any

from clew.recipes.recipe import Recipe

CNN = {"name": "cnn", "letter_dim": 30, "widths": [3]}


def tagging_settings(steps: int, *, warmup: float, **changes: Any) -> dict[str, Any]:
    return {
        "steps": steps,
        "batch_size": 32,
        "learning_rate": 2e-3,
        "optimiser": {"name": "adamw", "weight_decay": 0.01},
        "schedule": {"name": "cosine", "warmup": warmup, "floor": 0.02},
        "evaluate_every": max(steps // 10, 1),
        "log_every": 50,
    } | changes


def tagger(
    about: str,
    data: dict[str, Any],
    training: dict[str, Any],
    *,
    model: dict[str, Any] | None = None,
    embedding: dict[str, Any] | None = None,
    task: dict[str, Any] | None = None,
    text: dict[str, Any] | None = None,
    published: str = "",
) -> Recipe:
    """A BiLSTM-CRF on lower-cased words and their original letters."""
    return Recipe(
        about,
        {
            "data": data,
            "text": {"tokenizer": "word", "lowercase": True, "min_count": 2, **(text or {})},
            "embedding": {"characters": CNN, "characters_dim": 60, "dropout": 0.3, **(embedding or {})},
            "model": {
                "family": "recurrent",
                "cell": "lstm",
                "bidirectional": True,
                "dim": 200,
                "embedding_dim": 160,
                "dropout": 0.5,
                **(model or {}),
            },
            "task": {"name": "tagging", "output": "crf", **(task or {})},
            "training": training,
        },
        published=published,
    )


EWT = tagger(
    "A BiLSTM with a character CNN that tags parts of speech, on EWT's embedded sample.",
    {"corpus": "ewt-sample"},
    tagging_settings(1000, warmup=0.1, learning_rate=4e-3),
    model={"dropout": 0.4},
    embedding={"dropout": 0.2},
    task={"output": "softmax"},
)
EWT_FULL = tagger(
    "The same part-of-speech tagger on all of UD English EWT. For a GPU; add embedding.vectors=GLOVE.",
    {"corpus": "ewt"},
    tagging_settings(6000, warmup=0.0167, evaluate_every=600, learning_rate=3e-3),
    model={"dim": 400, "num_layers": 2, "dropout": 0.35},
    embedding={"dropout": 0.2},
    task={"output": "softmax"},
    published="UPOS about 95.4 for a BiLSTM",
)
CONLL = tagger(
    "BiLSTM-CRF with characters for names in CoNLL-2003. For a GPU; add embedding.vectors=GLOVE.",
    {"corpus": "conll2003"},
    tagging_settings(5000, warmup=0.02, evaluate_every=250, learning_rate=4e-3),
    model={"dim": 400, "word_dropout": 0.1},
    published="F1 90.94 on testb (Lample et al. 2016), 91.21 (Ma and Hovy 2016)",
)
OWN = tagger(
    "A BiLSTM-CRF with characters on your own tagged words: data.train=FILE, such as CoNLL columns.",
    {},
    tagging_settings(1500, warmup=0.067),
)
