"""Sequence to sequence: the user's pairs, and synthetic tasks with known answers."""

from typing import Any

from clew.recipes.recipe import Recipe
from clew.recipes.translation import BEAM, SMALL_TRANSFORMER, SUBWORDS

LUONG: dict[str, Any] = {
    "family": "seq2seq",
    "cell": "lstm",
    "dim": 128,
    "attention": "after",
    "score": "general",
    "readout": "none",
}
BAHDANAU: dict[str, Any] = {"family": "seq2seq", "cell": "gru", "dim": 128, "attention": "before", "score": "additive"}


def drawn(
    about: str, corpus: str, *, steps: int, warmup: float, takes: str, model: dict[str, Any] = LUONG, **data: Any
) -> Recipe:
    """An LSTM or GRU with attention on a synthetic task."""
    return Recipe(
        about,
        {
            "data": {"corpus": corpus, **data},
            "text": {"tokenizer": "word"},
            "model": model,
            "task": {"name": "sequence", "best": "exact_match"},
            "training": {
                "steps": steps,
                "batch_size": 64,
                "learning_rate": 3e-3,
                "schedule": {"name": "cosine", "warmup": warmup, "floor": 0.02},
                "evaluate_every": steps // 5,
                "log_every": 25,
            },
            "decoding": {"method": "greedy", "max_new": 50},
        },
        takes=takes,
    )


COPY = drawn(
    "Copying letters, by an LSTM with attention.",
    "copy",
    longest=10,
    steps=300,
    warmup=0.167,
    takes="1 minute on two cores",
)
REVERSE = drawn(
    "Reversing letters, by an LSTM with attention.",
    "reverse",
    longest=10,
    steps=300,
    warmup=0.167,
    takes="1 minute on two cores",
)
SORT = drawn(
    "Sorting letters, by an LSTM with attention.",
    "sort",
    longest=10,
    steps=500,
    warmup=0.1,
    takes="1 minute on two cores",
)
ADDITION = drawn(
    "Adding two numbers of up to four digits, by an LSTM with attention.",
    "addition",
    longest=4,
    size=50_000,
    steps=3000,
    warmup=0.0167,
    takes="5 minutes on two cores",
)
RECALL = drawn(
    "Recalling the digit paired with a letter, after a gap, by a GRU with attention.",
    "recall",
    model=BAHDANAU,
    size=20_000,
    steps=2000,
    warmup=0.025,
    takes="5 minutes on two cores",
)


def own(about: str, task: dict[str, Any], decoding: dict[str, Any], **data: Any) -> Recipe:
    """A small Transformer on the user's pairs."""
    return Recipe(
        about,
        {
            "data": data,
            "text": SUBWORDS,
            "model": SMALL_TRANSFORMER,
            "task": {"label_smoothing": 0.1, **task},
            "training": {
                "steps": 3000,
                "batch_tokens": 4096,
                "learning_rate": 2e-3,
                "schedule": {"name": "inverse_sqrt", "warmup": 0.1334},
                "evaluate_every": 250,
                "log_every": 25,
            },
            "decoding": {**BEAM, **decoding},
        },
    )


TRANSLATE = own(
    "A small Transformer on your own sentence pairs: data.train=FILE or [FILE,FILE].", {"name": "translation"}, {}
)
SUMMARISE = own(
    "A small Transformer that summarises, on your own texts and summaries: data.train=FILE.",
    {"name": "sequence", "measures": ["rouge"], "best": "rouge_l", "exact_space": True, "longest": 1024},
    {"max_new": 200, "no_repeat_ngram": 3},
)
DIALOGUE = own(
    "A small Transformer that replies, on your own dialogues, one turn per line: data.train=FILE.",
    {"name": "sequence", "measures": ["chrf"]},
    {"no_repeat_ngram": 3},
    turns=3,
)
TEXT_TO_CODE = own(
    "A small Transformer from texts to code, on your own pairs, with white space kept: data.train=FILE.",
    {"name": "sequence", "measures": ["exact_match", "edit_distance"], "exact_space": True, "longest": 512},
    {"max_new": 400},
)
