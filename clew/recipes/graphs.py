"""Graph LSTMs (Peng et al. 2017) that label words by their dependencies: 3,000 sentences of EWT for two CPU cores, and
the user's CoNLL-U; and graphs other than sentences: regions of synthetic scenes, and the user's JSON lines.

The embedded sample of EWT has no dependency heads, so `ewt-graph` reads the full EWT below CLEW_DATA.
"""

from typing import Any

from clew.recipes.recipe import Recipe
from clew.recipes.tagging import CNN, tagging_settings


def labeller(about: str, data: dict[str, Any], training: dict[str, Any]) -> Recipe:
    """Words as in taggers, and dependencies as edges forwards and backwards along the sentence. With
    model.family=recurrent and model.bidirectional=true it becomes a BiLSTM that reads only the words."""
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
    "A graph LSTM that labels dependencies from words and heads, on 3,000 sentences of EWT.",
    {"corpus": "ewt", "limit": 3000, "label": "deprel"},
    tagging_settings(600, warmup=0.1, learning_rate=4e-3),
)
OWN = labeller(
    "A graph LSTM that labels words by their dependencies, on your own CoNLL-U: data.train=FILE.",
    {},
    tagging_settings(600, warmup=0.1, learning_rate=4e-3),
)


def of_graphs(about: str, task: dict[str, Any], data: dict[str, Any], steps: int) -> Recipe:
    """Graphs with any edges, cycles included: all nodes are updated together, in rounds."""
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
            "training": tagging_settings(steps, warmup=0.1, learning_rate=4e-3),
        },
    )


REGIONS = of_graphs(
    "A graph LSTM that labels regions of synthetic scenes as parts of figures.",
    {"name": "node_labelling"},
    {"corpus": "scene-regions", "test_fraction": 0.1},
    300,
)
FIGURES = of_graphs(
    "A graph LSTM that counts the figures in synthetic scenes.",
    {"name": "graph_classification", "pooling": "max"},
    {"corpus": "scene-regions", "test_fraction": 0.1},
    300,
)
OWN_GRAPHS = of_graphs(
    "A graph LSTM that classifies your own graphs, as JSON lines: data.train=FILE.",
    {"name": "graph_classification", "pooling": "max"},
    {},
    600,
)
