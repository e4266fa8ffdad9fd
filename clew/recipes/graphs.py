"""Graph LSTMs (Peng et al. 2017) that label words by their dependencies: 3,000 sentences of EWT for two CPU cores, and CoNLL-U of one's
own; and graphs that are no sentences: regions of drawn scenes, and JSON lines of one's own.

The embedded sample of EWT has no heads, so `ewt-graph` reads EWT itself, below CLEW_DATA.
"""

from typing import Any

from clew.recipes.recipe import Recipe
from clew.recipes.tagging import CNN, training


def labeller(about: str, data: dict[str, Any], training: dict[str, Any]) -> Recipe:
    """Words as taggers read them, and dependencies as edges along the sentence and against it. With model.family=recurrent and
    model.bidirectional=true it is a BiLSTM that reads the words alone."""
    return Recipe(
        about,
        {
            "data": data,
            "text": {"tokenizer": "word", "lowercase": True, "min_count": 2},
            "embedding": {"characters": CNN, "characters_dim": 60, "dropout": 0.2},
            "model": {
                "family": "graph_lstm",
                "layer": {"name": "graph_lstm", "both_ways": True, "type_dim": 3},
                "dim": 200,
                "embedding_dim": 160,
                "dropout": 0.4,
            },
            "task": {"name": "node_labelling"},
            "training": training,
        },
    )


EWT = labeller(
    "A graph LSTM tells words' relations from words and unlabelled heads, 3,000 sentences of EWT.",
    {"corpus": "ewt", "limit": 3000, "label": "deprel"},
    training(600, warmup=0.1, learning_rate=4e-3),
)
OWN = labeller(
    "A graph LSTM that labels words by their dependencies, on CoNLL-U of your own: data.train=FILE.",
    {},
    training(600, warmup=0.1, learning_rate=4e-3),
)


def of_graphs(about: str, task: dict[str, Any], data: dict[str, Any], steps: int) -> Recipe:
    """Nodes with edges of their own, which may make cycles: all are read together, in rounds."""
    return Recipe(
        about,
        {
            "data": data,
            "text": {"tokenizer": "word"},
            "model": {
                "family": "graph_lstm",
                "layer": {"name": "graph_lstm", "order": "rounds", "num_rounds": 3, "type_dim": 6},
                "dim": 64,
                "embedding_dim": 32,
            },
            "task": task,
            "training": training(steps, warmup=0.1, learning_rate=4e-3),
        },
    )


REGIONS = of_graphs(
    "A graph LSTM that tells parts of figures from their neighbours in drawn scenes.",
    {"name": "node_labelling"},
    {"corpus": "scene-regions", "test_fraction": 0.1},
    300,
)
FIGURES = of_graphs(
    "A graph LSTM that counts the figures of drawn scenes.",
    {"name": "graph_classification", "pooling": "max"},
    {"corpus": "scene-regions", "test_fraction": 0.1},
    300,
)
OWN_GRAPHS = of_graphs(
    "A graph LSTM that classifies graphs of your own, JSON lines: data.train=FILE.",
    {"name": "graph_classification", "pooling": "max"},
    {},
    600,
)
