"""Tiny runs with random weights that stand for pre-trained ones, and settings that fine-tune one in under a second."""

from itertools import product
from pathlib import Path
from typing import Any

import torch

from clew.runs.build import build_task
from clew.runs.config import resolve
from clew.runs.directory import write_config, write_weights
from clew.runs.folder.run_files import WEIGHTS
from clew.runs.folder.vocabularies import save_vocabularies
from clew.text.train import TOKENIZERS, framed_as_bert

ADJECTIVES, NOUNS, JUDGEMENTS = ["red", "blue", "big", "old", "new"], ["fox", "owl", "cat", "dog"], ["good", "bad"]
BODIES: dict[str, dict[str, Any]] = {
    "bert": {"family": "bert", "dim": 8, "num_layers": 2, "num_heads": 2, "hidden_dim": 16, "max_length": 32},
    "gpt": {"family": "gpt", "dim": 8, "num_layers": 2, "num_heads": 2, "max_length": 32},
    "llama": {"family": "llama", "dim": 8, "num_layers": 2, "num_heads": 2},
    "recurrent": {"family": "recurrent", "dim": 8, "num_layers": 2},
    "elmo": {"family": "elmo", "dim": 8, "num_layers": 2},
    "mixed": {"family": "mixed", "dim": 8, "layers": ["lstm", "attention", "feedforward"]},
}
TASKS = {"bert": "masked_language_model", "elmo": "bidirectional_language_model"}
TINY = [
    "training.steps=6",
    "training.batch_size=4",
    "training.learning_rate=0.01",
    "training.schedule=constant",
    "training.evaluate_every=3",
    "training.log_every=1",
    "device=cpu",
]


def save_pretrained(folder: Path, kind: str = "bert") -> Path:
    """Write a run directory with a body of this family and random weights."""
    sentences = [
        f"{words[0]} {words[1]} {words[2]} is {words[3]}"
        for words in product(["a", "the"], ADJECTIVES, NOUNS, JUDGEMENTS)
    ]
    tokenizer = TOKENIZERS["wordpiece" if kind == "bert" else "word"](sentences, size=80 if kind == "bert" else None)
    tokenizer = framed_as_bert(tokenizer) if kind == "bert" else tokenizer
    task = {"name": TASKS.get(kind, "language_model")}
    text = {"tokenizer": "wordpiece", "size": 80} if kind == "bert" else {"tokenizer": "word"}
    config = resolve(
        {"recipe": f"tiny-{kind}", "model": BODIES[kind], "task": task, "text": text, "data": {"train": "text.txt"}}
    )
    with torch.random.fork_rng():
        task_module = build_task(config, {"tokenizer": tokenizer})
    folder.mkdir(parents=True)
    save_vocabularies(folder, {"tokenizer": tokenizer})
    write_weights(folder / WEIGHTS, task_module.state_dict())
    write_config(folder, config)
    return folder


def labelled_file(folder: Path, *, pairs: bool = False) -> list[str]:
    """Write a table of texts labelled good or bad; return the settings that read it."""
    rows = [
        f"the {a} {b} is {c}\t{f'a {b} {a}' + chr(9) if pairs else ''}{c}"
        for a, b, c in product(ADJECTIVES, NOUNS, JUDGEMENTS)
    ]
    header = "sentence1\tsentence2\tlabel" if pairs else "sentence1\tlabel"
    path = folder / "labelled.tsv"
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return [
        f"data.train={path}",
        "data.text=sentence1",
        "data.label=label",
        *(["data.second=sentence2"] if pairs else []),
    ]


def tagged_file(folder: Path) -> list[str]:
    path = folder / "tagged.conll"
    path.write_text("".join(f"the D\n{a} A\n{b} N\n\n" for a, b in product(ADJECTIVES, NOUNS)), encoding="utf-8")
    return [f"data.train={path}"]
