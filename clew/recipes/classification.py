"""Classification: sentiment on the embedded sample for two CPU cores, one recipe per body; the Stanford Sentiment
Treebank as sentences; and the user's labelled texts."""

from typing import Any

from clew.recipes.recipe import Recipe

SELF_ATTENTION = {
    "family": "mixed",
    "layers": [{"name": "attention", "causal": False, "position": "rotary"}, "feedforward"],
    "dim": 64,
    "dropout": 0.4,
}
BIDIRECTIONAL = {
    "family": "recurrent",
    "cell": "lstm",
    "bidirectional": True,
    "dim": 200,
    "embedding_dim": 100,
    "dropout": 0.5,
}


def training(steps: int, *, warmup: float, **changes: Any) -> dict[str, Any]:
    return {
        "steps": steps,
        "batch_size": 32,
        "learning_rate": 2e-3,
        "optimiser": {"name": "adamw", "weight_decay": 0.01},
        "schedule": {"name": "cosine", "warmup": warmup, "floor": 0.02},
        "evaluate_every": max(steps // 10, 1),
        "log_every": 50,
        "patience": 5,
    } | changes


def classifier(
    about: str,
    data: dict[str, Any],
    model: dict[str, Any],
    training: dict[str, Any],
    *,
    task: dict[str, Any] | None = None,
    embedding: dict[str, Any] | None = None,
    published: str = "",
) -> Recipe:
    return Recipe(
        about,
        {
            "data": data,
            "text": {"tokenizer": "word", "lowercase": True, "min_count": 2},
            "embedding": embedding or {},
            "model": model,
            "task": {"name": "classification", "dropout": 0.5, **(task or {})},
            "training": training,
        },
        published=published,
    )


SENTIMENT = {"corpus": "sentiment-sample"}
SENTIMENT_BAG = classifier(
    "A feed-forward network on averaged word vectors, on the sentiment of sentences about films.",
    SENTIMENT,
    {"family": "bag", "dim": 100, "dropout": 0.3},
    training(1000, warmup=0.05),
    task={"pooling": "mean", "num_hidden": 1},
)
SENTIMENT_CNN = classifier(
    "Convolutions over 3, 4 and 5 words with max pooling (Kim 2014), on the same sentences.",
    SENTIMENT,
    {"family": "cnn", "embedding_dim": 64, "dim": 300, "dropout": 0.3},
    training(800, warmup=0.0625),
    task={"pooling": "max"},
)
SENTIMENT_LSTM = classifier(
    "A bidirectional LSTM with max pooling, on the same sentences.",
    SENTIMENT,
    BIDIRECTIONAL,
    training(800, warmup=0.0625),
    task={"pooling": "max"},
)
SENTIMENT_ATTENTION = classifier(
    "A layer of self-attention with mean pooling, on the same sentences.",
    SENTIMENT,
    SELF_ATTENTION,
    training(800, warmup=0.0625, optimiser={"name": "adamw", "weight_decay": 0.1}),
    task={"pooling": "mean"},
    embedding={"dim": 64},  # which starts the table near 0
)
SST = classifier(
    "A BiLSTM on the Stanford Sentiment Treebank's phrases. For a GPU; add embedding.vectors=GLOVE.",
    {"corpus": "sst", "phrases": True},
    {**BIDIRECTIONAL, "dim": 300},
    training(4000, warmup=0.0125, batch_size=256, evaluate_every=250, patience=8),
    task={"pooling": "mean", "split": False},
    published="accuracy 49.1 for a bidirectional LSTM with GloVe of 300 dimensions (Tai et al. 2015)",
)
OWN = classifier(
    "A BiLSTM on your own labelled texts: data.train=FILE data.text=COLUMN data.label=COLUMN.",
    {},
    BIDIRECTIONAL,
    training(1500, warmup=0.0334),
    task={"pooling": "max"},
)
