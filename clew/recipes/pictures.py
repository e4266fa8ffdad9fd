"""Pictures: drawn scenes for two CPU cores, whole corpora for a GPU, and pictures of one's own."""

from typing import Any

from clew.recipes.recipe import Recipe


def training(steps: int, **changes: Any) -> dict[str, Any]:
    return {
        "steps": steps,
        "batch_size": 32,
        "learning_rate": 2e-3,
        "optimiser": {"name": "adamw", "weight_decay": 0.01},
        "schedule": {"name": "cosine", "warmup": 0.1, "floor": 0.02},
        "evaluate_every": max(steps // 5, 1),
        "log_every": 25,
    } | changes


def captioner(about: str, data: dict[str, Any], training: dict[str, Any], *, side: int, **model: Any) -> Recipe:
    """A residual network, whose grid an LSTM attends to while it writes (Xu et al. 2015)."""
    return Recipe(
        about,
        {
            "data": data,
            "text": {"tokenizer": "word", "lowercase": True},
            "model": {"family": "seq2seq", "dim": 128, "embedding_dim": 128, "attention": "before", "readout": "tanh", **model},
            "task": {"name": "captioning", "input": {"name": "convolved", "side": side}},
            "training": training,
            "decoding": {"method": "greedy", "max_new": 40},
        },
    )


SCENES = captioner(
    "An LSTM that attends to the grid of a residual network and captions drawn scenes.",
    {"corpus": "scenes", "size": 4000, "side": 48, "things": 2},
    training(900),
    side=48,
)
COCO = captioner(
    "The same on 60 photographs of COCO, the embedded sample: too few to learn from.",
    {"corpus": "coco-sample"},
    training(300),
    side=64,
)
FLICKR = captioner(
    "The same on the part of Flickr8k at hand, for a GPU.", {"corpus": "flickr8k"}, training(6000, batch_size=64), side=128, dropout=0.3
)
OWN = captioner("Pictures of your own with captions: JSON lines, CSV, COCO's or Flickr8k's.", {}, training(3000), side=96, dropout=0.2)


def classifier(about: str, data: dict[str, Any], training: dict[str, Any], reader: dict[str, Any], model: dict[str, Any]) -> Recipe:
    return Recipe(
        about,
        {
            "data": data,
            "model": model,
            "task": {"name": "picture_classification", "input": reader, "pooling": "max"},
            "training": training,
        },
    )


BAG = {"family": "bag", "dim": 128}
FASHION = classifier(
    "A small residual network on Fashion-MNIST.",
    {"corpus": "fashion-mnist"},
    training(4000, batch_size=128),
    {"name": "convolved", "side": 28, "grey": True, "stem_stride": 1, "shift": 2, "flip": True, "blocks": 2},
    BAG,
)
CLASSIFY = classifier(
    "Pictures of your own: a folder with one for each class, or a table.",
    {},
    training(2000),
    {"name": "convolved", "side": 96, "shift": 4, "flip": True, "blocks": 2},
    BAG,
)
PARAGRAPHS = Recipe(
    "A paragraph on drawn scenes, a sentence at a time, from the regions of their things.",
    {
        "data": {"corpus": "scenes", "size": 10000, "side": 48, "order": "across"},
        "text": {"tokenizer": "word", "lowercase": True},
        "model": {
            "family": "bert",
            "dim": 96,
            "num_layers": 1,
            "num_heads": 4,
            "dropout": 0.0,
            "attention_dropout": 0.0,
            "num_segments": 0,
        },
        "task": {"name": "paragraphs", "input": {"name": "regions", "side": 12}, "dim": 96, "embedding_dim": 64, "best": "all_once"},
        "training": training(2000, batch_tokens=1600),
        "decoding": {"method": "greedy", "max_new": 30},
    },
)
