"""Words of the Penn Treebank in the three settings of Zaremba, Sutskever and Vinyals 2014.

Their loss is summed over the steps of a chunk and ours is the mean, so that learning rates here are theirs times the chunk's length, and
clipping norms theirs divided by it.
"""

from clew.recipes.recipe import Recipe

WORDS = 929_589  # of the training text, line ends counted
BATCH = 20


def zaremba(
    name: str, *, dim: int, length: int, epochs: int, scale: float, dropout: float, clip: float, decay: float, constant: int, published: str
) -> Recipe:
    steps_per_epoch = -(-((WORDS - 1) // BATCH) // length)
    return Recipe(
        f"Zaremba's {name} word LSTM on the Penn Treebank: 2 layers of {dim}. For a GPU.",
        {
            "data": {"corpus": "ptb"},
            "text": {"tokenizer": "word"},
            "model": {"family": "recurrent", "cell": "lstm", "dim": dim, "num_layers": 2, "dropout": dropout, "init_scale": scale},
            "task": {"init_scale": scale},
            "training": {
                "steps": epochs * steps_per_epoch,
                "batch_size": BATCH,
                "length": length,
                "batching": "streams",
                "optimiser": "sgd",
                "learning_rate": 1.0 * length,
                "schedule": {"name": "by_epoch", "decay": decay, "constant": constant},
                "clip_norm": clip / length,
                "evaluate_every": steps_per_epoch,
                "log_every": 100,
            },
            "decoding": {"max_new": 100},
        },
        published=published,
    )


SMALL = zaremba(
    "small",
    dim=200,
    length=20,
    epochs=13,
    scale=0.1,
    dropout=0.0,
    clip=5.0,
    decay=0.5,
    constant=4,
    published="test perplexity about 115 (the paper's repository)",
)
MEDIUM = zaremba(
    "medium",
    dim=650,
    length=35,
    epochs=39,
    scale=0.05,
    dropout=0.5,
    clip=5.0,
    decay=0.8,
    constant=6,
    published="test perplexity 82.7 (Zaremba et al. 2014)",
)
LARGE = zaremba(
    "large",
    dim=1500,
    length=35,
    epochs=55,
    scale=0.04,
    dropout=0.65,
    clip=10.0,
    decay=1 / 1.15,
    constant=14,
    published="test perplexity 78.4 (Zaremba et al. 2014)",
)
