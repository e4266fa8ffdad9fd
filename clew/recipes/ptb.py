"""Words of the Penn Treebank: the three settings of Zaremba, Sutskever and Vinyals 2014, and AWD-LSTM (Merity, Keskar
and Socher 2018).

Zaremba's loss is the sum over the steps of a chunk, and ours is the mean. So learning rates here are theirs times the
chunk's length, and clipping norms are theirs divided by it.
"""

from clew.recipes.recipe import Recipe

WORDS = 929_589  # of the training text, line ends counted
BATCH = 20


def zaremba(
    name: str,
    *,
    dim: int,
    length: int,
    epochs: int,
    scale: float,
    dropout: float,
    clip: float,
    decay: float,
    constant: int,
    published: str,
) -> Recipe:
    steps_per_epoch = -(-((WORDS - 1) // BATCH) // length)
    return Recipe(
        f"Zaremba's {name} word LSTM on the Penn Treebank: 2 layers of {dim}. For a GPU.",
        {
            "data": {"corpus": "ptb"},
            "text": {"tokenizer": "word"},
            "model": {
                "family": "recurrent",
                "cell": "lstm",
                "dim": dim,
                "num_layers": 2,
                "dropout": dropout,
                "init_scale": scale,
            },
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

# Chunks are 67.8 words long in the mean (0.95 * 69.5 + 0.05 * 34.5), so that an epoch has about 686. The steps are the
# published 500 epochs; training.steps can be lowered.
AWD_EPOCH = 686
AWD = Recipe(
    "AWD-LSTM on the Penn Treebank: 3 layers of 1150, with all its regularisers. For a GPU; slow.",
    {
        "data": {"corpus": "ptb"},
        "text": {"tokenizer": "word"},
        "model": {
            "family": "recurrent",
            "cell": {"name": "lstm", "weight_drop": 0.5},
            "dim": 1150,
            "num_layers": 3,
            "embedding_dim": 400,
            "last_dim": 400,
            "dropout": 0.25,
            "input_dropout": 0.4,
            "last_dropout": 0.0,
            "dropout_kind": "locked",
            "word_dropout": 0.1,
        },
        "task": {
            "tied": True,
            "dropout": 0.4,
            "dropout_kind": "locked",
            "activation_penalty": 2.0,
            "temporal_penalty": 1.0,
        },
        "training": {
            "steps": 500 * AWD_EPOCH,
            "batch_size": BATCH,
            "length": 70,
            "batching": "streams",
            "vary_length": True,
            "optimiser": {"name": "sgd", "weight_decay": 1.2e-6},
            "learning_rate": 30.0,
            "clip_norm": 0.25,
            "average": {"name": "triggered", "patience": 5},
            "evaluate_every": AWD_EPOCH,
            "evaluate_batch": 10,
            "log_every": 100,
        },
        "decoding": {"max_new": 100},
    },
    published="perplexity 61.2 in validation and 58.8 in test, not fine-tuned (awd-lstm-lm's README)",
)
