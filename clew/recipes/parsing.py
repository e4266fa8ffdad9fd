"""Constituency parsing as translation (Vinyals et al. 2015): CRAFT's embedded sample for two CPU cores, whole treebanks for a GPU, and a
treebank of one's own."""

from typing import Any

from clew.recipes.recipe import Recipe

BEAM = {"method": "beam", "beams": 5, "length_penalty": 0.0}


def attentive(**changes: Any) -> dict[str, Any]:
    """Attention before the cell: the decoder that finds out soonest which word comes next."""
    return {"family": "seq2seq", "cell": "lstm", "dim": 128, "attention": "before", "score": "general", "dropout": 0.3} | changes


def training(steps: int, **changes: Any) -> dict[str, Any]:
    return {
        "steps": steps,
        "batch_tokens": 1024,
        "learning_rate": 2e-3,
        "schedule": {"name": "cosine", "warmup": 100, "floor": 0.02},
        "evaluate_every": steps // 10,
        "log_every": 50,
    } | changes


def parser(about: str, data: dict[str, Any], model: dict[str, Any], training: dict[str, Any], **more: Any) -> Recipe:
    return Recipe(
        about,
        {
            "data": data,
            "text": {"tokenizer": "word", "min_count": 2},
            "model": model,
            "task": {"name": "parsing", "tags": True},
            "training": training,
            "decoding": BEAM,
        },
        **more,
    )


CRAFT = parser(
    "An LSTM with attention that writes the trees of sentences, on the embedded sample of CRAFT.",
    {"corpus": "craft-sample"},
    attentive(),
    training(3000),
)
CRAFT_FULL = parser(
    "The parser of Vinyals et al. on all of CRAFT, biomedical articles. For a GPU.",
    {"corpus": "craft"},
    attentive(dim=256, num_layers=2),
    training(6000, batch_tokens=16384, precision="tf32"),
)
WSJ = parser(
    "The parser of Vinyals et al. on the Penn Treebank's sample of the Wall Street Journal. For a GPU.",
    {"corpus": "wsj-sample"},
    attentive(dim=256, num_layers=2, dropout=0.4),
    training(3000, batch_tokens=8192, precision="tf32"),
    published="F1 88.3 on section 23, trained on the whole treebank, more than ten times the sample (Vinyals et al. 2015)",
)
OWN = parser(
    "The parser of craft-parser on a treebank of your own: data.train=FILE.",
    {},
    attentive(),
    training(3000),
)
