"""Constituency parsing as translation (Vinyals et al. 2015): CRAFT's embedded sample for two CPU cores, whole treebanks for a GPU, and a
treebank of one's own."""

from clew.recipes.recipe import Recipe

CRAFT_PARSER = Recipe(
    "An LSTM with attention that writes the trees of sentences, on the embedded sample of CRAFT.",
    {
        "data": {"corpus": "craft-sample"},
        "text": {"tokenizer": "word", "min_count": 2},
        "model": {"family": "seq2seq", "cell": "lstm", "dim": 128, "attention": "after", "score": "general", "dropout": 0.3},
        "task": {"name": "parsing"},
        "training": {
            "steps": 800,
            "batch_tokens": 2048,
            "learning_rate": 2e-3,
            "schedule": {"name": "cosine", "warmup": 50, "floor": 0.02},
            "evaluate_every": 200,
            "log_every": 25,
        },
        "decoding": {"method": "beam", "beams": 5},
    },
)
