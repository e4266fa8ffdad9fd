"""Tree-LSTMs (Tai et al. 2015) that classify sentences by their trees: the embedded sample of GUM for two CPU cores,
the Stanford Sentiment Treebank for a GPU, and the user's trees."""

from typing import Any

from clew.recipes.recipe import Recipe


def tree_lstm(layer: str, **changes: Any) -> dict[str, Any]:
    return {"family": "tree_lstm", "layer": layer, "dim": 64, "dropout": 0.4} | changes


def training(steps: int, **changes: Any) -> dict[str, Any]:
    return {
        "steps": steps,
        "batch_size": 25,
        "learning_rate": 3e-3,
        "optimiser": {"name": "adamw", "weight_decay": 0.01},
        "schedule": "linear",
        "evaluate_every": steps // 12,
        "log_every": 50,
    } | changes


def classifier(
    about: str,
    data: dict[str, Any],
    model: dict[str, Any],
    training: dict[str, Any],
    *,
    text: dict[str, Any] | None = None,
    task: dict[str, Any] | None = None,
    published: str = "",
) -> Recipe:
    return Recipe(
        about,
        {
            "data": data,
            "text": {"tokenizer": "word", "min_count": 2, "lowercase": True, **(text or {})},
            "model": model,
            "task": {"name": "tree_classification", **(task or {})},
            "training": training,
        },
        published=published,
    )


def sentiment(about: str, published: str, data: dict[str, Any], steps: int) -> Recipe:
    """Twelve epochs: an epoch of 8,544 sentences is 342 steps, one of the 6,920 non-neutral sentences is 277. Adam's
    learning rate and the weight average were chosen on the validation part; the paper uses Adagrad."""
    return classifier(
        about,
        {"corpus": "sst", **data},
        tree_lstm("n_ary_lstm", dim=300, embedding_dim=100, dropout=0.5),
        training(steps, learning_rate=2e-3, average={"name": "ema", "decay": 0.998}),
        text={"min_count": 1},
        published=published,
    )


GUM = classifier(
    "A binary Tree-LSTM that classifies sentence types from trees, on the embedded sample of GUM.",
    {"corpus": "gum-trees-sample"},
    tree_lstm("n_ary_lstm"),
    training(600),
    task={"phrases": True},
)
GUM_CHILD_SUM = classifier(
    "A child-sum Tree-LSTM that classifies sentence types from trees, on the embedded sample of GUM.",
    {"corpus": "gum-trees-sample"},
    tree_lstm("child_sum_lstm"),
    training(600),
    task={"phrases": True},
)
SST = sentiment(
    "The binary Tree-LSTM on the Stanford Sentiment Treebank, five classes. For a GPU.",
    "test accuracy 51.0 with 300-dimensional GloVe vectors (Tai et al. 2015)",
    {},
    4104,
)
SST_BINARY = sentiment(
    "The binary Tree-LSTM on the Stanford Sentiment Treebank, positive or negative. For a GPU.",
    "test accuracy 88.0 with 300-dimensional GloVe vectors (Tai et al. 2015)",
    {"label_map": {"0": "negative", "1": "negative", "2": None, "3": "positive", "4": "positive"}},
    3324,
)
OWN = classifier(
    "A child-sum Tree-LSTM on your own labelled trees: data.train=FILE.",
    {},
    tree_lstm("child_sum_lstm"),
    training(600),
)
