"""Pictures: synthetic scenes for two CPU cores, whole corpora for a GPU, and the user's pictures."""

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


def captioner(
    about: str,
    data: dict[str, Any],
    training: dict[str, Any],
    *,
    side: int,
    reader: dict[str, Any] | None = None,
    published: str = "",
    **model: Any,
) -> Recipe:
    """A residual network, with an LSTM that attends to its grid while it writes (Xu et al. 2015)."""
    return Recipe(
        about,
        {
            "data": data,
            "text": {"tokenizer": "word", "lowercase": True},
            "model": {
                "family": "seq2seq",
                "dim": 128,
                "embedding_dim": 128,
                "attention": "before",
                "readout": "tanh",
                **model,
            },
            "task": {"name": "captioning", "input": {"name": "convolved", "side": side, **(reader or {})}},
            "training": training,
            "decoding": {"method": "greedy", "max_new": 40},
        },
        published=published,
    )


def scenes(about: str, training: dict[str, Any], *, size: int, first_dim: int) -> Recipe:
    """Captions of synthetic scenes. The stem has stride 1, since shapes of a few pixels need every pixel."""
    data = {
        "corpus": "scenes",
        "size": size,
        "side": 48,
        "things": 2,
        "forms": "fixed",
        "valid_fraction": 0.02,
        "test_fraction": 0.02,
    }
    reader = {"first_dim": first_dim, "stem_stride": 1, "positions": "learned", "norm": "place"}
    return captioner(about, data, training, side=48, reader=reader, encoder="bare", readout="none")


SCENES = scenes(
    "An LSTM that attends to the grid of a residual network, on captions of synthetic scenes.",
    training(1200, learning_rate=3e-3, evaluate_every=400),
    size=20_000,
    first_dim=16,
)
SCENES_FULL = scenes(
    "The same with a wider network, for a GPU: 99 of 100 captions are exact.",
    training(4000, batch_size=64, optimiser={"name": "adamw", "weight_decay": 0.3}),
    size=60_000,
    first_dim=32,
)
COCO = captioner(
    "The same on 60 photographs of COCO, the embedded sample: too few to learn from.",
    {"corpus": "coco-sample"},
    training(300),
    side=64,
)
PHOTOGRAPHS = {"first_dim": 48, "blocks": 2, "shift": 8, "flip": True, "positions": "learned"}
FLICKR = captioner(
    "An LSTM that attends to the grid of a residual network, on a part of Flickr8k, for a GPU.",
    {"corpus": "flickr8k"},
    training(6000, batch_size=64, learning_rate=1e-3, optimiser={"name": "adamw", "weight_decay": 0.1}),
    side=128,
    reader=PHOTOGRAPHS,
    encoder="bare",
    dim=256,
    embedding_dim=256,
    dropout=0.5,
    published="BLEU-4 19.5 (soft) and 21.3 (hard) on all of Flickr8k with features of VGG (Xu et al. 2015)",
)
FLICKR_TRANSFORMER = Recipe(
    "The same with a Transformer instead of the LSTM, on the same photographs.",
    {
        **FLICKR.settings,
        "model": {
            "family": "transformer",
            "dim": 256,
            "num_layers": 3,
            "num_heads": 8,
            "wiring": "pre_norm",
            "dropout": 0.3,
        },
    },
    published=FLICKR.published,
)
OWN = captioner(
    "Your own pictures with captions: JSON lines, CSV, or the formats of COCO and Flickr8k.",
    {},
    training(3000),
    side=96,
    dropout=0.2,
)


def classifier(
    about: str,
    data: dict[str, Any],
    training: dict[str, Any],
    reader: dict[str, Any],
    model: dict[str, Any],
    pooling: str = "max",
) -> Recipe:
    return Recipe(
        about,
        {
            "data": data,
            "model": model,
            "task": {"name": "picture_classification", "input": reader, "pooling": pooling},
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


def fashion(about: str, reader: dict[str, Any], model: dict[str, Any], pooling: str = "mean", **changes: Any) -> Recipe:
    """A row of the table that `python -m benchmarks.fashion_mnist` prints: the same data, augmentation, steps and
    schedule."""
    read = {"side": 28, "grey": True, "shift": 2, "flip": True, **reader}
    return classifier(
        about,
        {"corpus": "fashion-mnist"},
        training(8000, batch_size=128, log_every=100, **changes),
        read,
        model,
        pooling,
    )


FASHION_GRID = fashion(
    "A 2-D LSTM that reads patches of Fashion-MNIST from four corners.",
    {"name": "patches", "size": 2},
    {"family": "grid_lstm", "dim": 192, "num_layers": 2, "block": 2, "directions": 4, "dropout": 0.1},
)
FASHION_ROWS = fashion(
    "A bidirectional LSTM that reads Fashion-MNIST row by row.",
    {"name": "rows"},
    {
        "family": "recurrent",
        "cell": "lstm",
        "bidirectional": True,
        "dim": 384,
        "num_layers": 2,
        "embedding_dim": 128,
        "dropout": 0.1,
    },
)
FASHION_VIT = fashion(
    "A vision Transformer on patches of Fashion-MNIST.",
    {"name": "patches", "size": 4},
    {
        "family": "bert",
        "dim": 192,
        "num_layers": 6,
        "num_heads": 6,
        "num_segments": 0,
        "dropout": 0.1,
        "attention_dropout": 0.0,
    },
    learning_rate=1e-3,
    optimiser={"name": "adamw", "weight_decay": 0.05},
)
FASHION_RESNET = fashion(
    "A residual network of six blocks on Fashion-MNIST, for a GPU.",
    {"name": "convolved", "stem_stride": 1, "first_dim": 64, "blocks": 2},
    {"family": "bag", "dim": 256, "dropout": 0.1},
    optimiser={"name": "adamw", "weight_decay": 0.05},
)
CLASSIFY = classifier(
    "Your own pictures: a folder with one subfolder per class, or a table.",
    {},
    training(2000),
    {"name": "convolved", "side": 96, "shift": 4, "flip": True, "blocks": 2},
    BAG,
)


def labeller(about: str, data: dict[str, Any], training: dict[str, Any], size: int) -> Recipe:
    """A 2-D LSTM over squares of pixels that labels each square."""
    return Recipe(
        about,
        {
            "data": data,
            "model": {"family": "grid_lstm", "dim": 96, "embedding_dim": 48, "num_layers": 2, "directions": 4},
            "task": {"name": "cell_labelling", "input": {"name": "cells", "size": size}},
            "training": training,
        },
    )


SCENE_CELLS = labeller(
    "A 2-D LSTM that labels every square of synthetic scenes with its shape.",
    {"corpus": "scenes", "size": 1600, "side": 48, "smallest": 40},
    training(500, batch_size=16, learning_rate=4e-3),
    3,
)
LABEL_CELLS = labeller(
    "A 2-D LSTM that labels every square of your own pictures, from a folder of label pictures.", {}, training(2000), 4
)
PARAGRAPHS = Recipe(
    "Paragraphs that describe synthetic scenes, sentence by sentence, from the regions of their objects.",
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
        "task": {
            "name": "paragraphs",
            "input": {"name": "regions", "side": 12},
            "dim": 96,
            "embedding_dim": 64,
            "best": "all_once",
        },
        "training": training(2000, batch_tokens=1600),
        "decoding": {"method": "greedy", "max_new": 30},
    },
)
