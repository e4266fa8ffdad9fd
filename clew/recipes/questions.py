"""Reading comprehension: the user's questions with a pre-trained encoder, and synthetic ones with known answers."""

from clew.recipes.finetuning import finetuning, finetuning_settings
from clew.recipes.recipe import Recipe

OWN = finetuning(
    "Answers as spans of your own passages: transfer.from=RUN data.train=train-v1.1.json.",
    {"name": "question_answering"},
    finetuning_settings(8200, learning_rate=5e-5),
    "exact match 80.8 and F1 88.5 on SQuAD 1.1's development part, by BERT base in three epochs (Devlin et al. 2019)",
)
FACTS = Recipe(
    "Self-attention that answers questions on synthetic facts, a fifth of them without an answer.",
    {
        "data": {"corpus": "facts", "size": 10_000, "shortest": 2, "longest": 6},
        "text": {"tokenizer": "word", "lowercase": True},
        "model": {
            "family": "mixed",
            "layers": [
                {"name": "convolution", "width": 7, "causal": False},
                {"name": "attention", "causal": False},
                "feedforward",
            ],
            "dim": 64,
        },
        "task": {"name": "question_answering", "window": 64, "stride": 16, "longest_answer": 5},
        "training": {
            "steps": 400,
            "batch_size": 64,
            "learning_rate": 5e-3,
            "schedule": {"name": "cosine", "warmup": 0.125, "floor": 0.02},
            "evaluate_every": 100,
            "log_every": 25,
        },
    },
    takes="1 minute on two cores",
)
