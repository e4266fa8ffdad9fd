"""Constituency parsing as translation (Vinyals et al. 2015): CRAFT's embedded sample for two CPU cores, whole treebanks
for a GPU, and the user's treebank."""

from typing import Any

from clew.recipes.recipe import Recipe

BEAM = {"method": "beam", "beams": 10, "length_penalty": 0.0}


def attentive(**changes: Any) -> dict[str, Any]:
    """A decoder with attention before the cell, which learns fastest to find the next word."""
    return {
        "family": "seq2seq",
        "cell": "lstm",
        "dim": 128,
        "attention": "before",
        "score": "general",
        "dropout": 0.3,
    } | changes


def training(steps: int, *, warmup: float, **changes: Any) -> dict[str, Any]:
    return {
        "steps": steps,
        "batch_tokens": 1024,
        "learning_rate": 2e-3,
        "schedule": {"name": "cosine", "warmup": warmup, "floor": 0.02},
        "evaluate_every": steps // 10,
        "log_every": 50,
    } | changes


def parser(
    about: str,
    data: dict[str, Any],
    model: dict[str, Any],
    training: dict[str, Any],
    *,
    task: dict[str, Any] | None = None,
    decoding: dict[str, Any] = BEAM,
    published: str = "",
) -> Recipe:
    return Recipe(
        about,
        {
            "data": data,
            "text": {"tokenizer": "word", "min_count": 2},
            "model": model,
            "task": {"name": "parsing", "tags": True, **(task or {})},
            "training": training,
            "decoding": decoding,
        },
        published=published,
    )


CRAFT = parser(
    "An LSTM with attention that parses sentences into trees, on the embedded sample of CRAFT.",
    {"corpus": "craft-sample"},
    attentive(),
    training(3000, warmup=0.0334),
)
CRAFT_FULL = parser(
    "Two layers with attention above them, on all of CRAFT (biomedical articles). For a GPU.",
    {"corpus": "craft"},
    attentive(dim=512, num_layers=2, attention="after", feeding=False, dropout=0.4),
    training(1800, warmup=0.056, batch_tokens=16_000, precision="tf32", evaluate_every=900),
    task={"longest": 600},
    decoding={"method": "greedy"},
)
WSJ = parser(
    "Two layers with input feeding of attention, on a sample of the Penn Treebank's WSJ. For a GPU.",
    {"corpus": "wsj-sample"},
    attentive(dim=256, num_layers=2, attention="after", dropout=0.5),
    training(
        2500,
        warmup=0.2,
        batch_tokens=6000,
        learning_rate=1e-3,
        precision="tf32",
        average={"name": "ema", "decay": 0.999},
        evaluate_every=500,
    ),
    task={"tags": False, "longest": 600},
    decoding={"method": "greedy"},
    published=(
        "F1 88.3 on section 23, trained on the whole treebank, more than ten times the sample (Vinyals et al. 2015)"
    ),
)
OWN = parser(
    "The parser of craft-parser on your own treebank: data.train=FILE.",
    {},
    attentive(),
    training(3000, warmup=0.0334),
)
