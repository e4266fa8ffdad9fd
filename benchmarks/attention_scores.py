"""`python -m benchmarks.attention_scores [--steps N] [--seed N]`: compare the six attention scores and hard attention
on tasks with a known alignment.

An LSTM with attention learns to copy, reverse and sort. Printed for unseen sequences: the share of correct outputs, and
the share of steps whose largest attention weight is on the source word that the output word comes from.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import torch

from clew.core.batches import to_device
from clew.data.kinds.pairs import PAIRS
from clew.data.synthetic.sequences import right_place
from clew.layers.scores import SCORES
from clew.metrics.strings import Accuracy, alignment_accuracy
from clew.runs.config import Config, resolve
from clew.tasks.shared.alignment import attention_weights
from clew.training.run import train_run
from clew.training.run_folder import RunFolder

TASKS = ("copy", "reverse", "sort")
ATTENTIONS: dict[str, dict[str, Any]] = {name: {"score": name} for name in SCORES}
ATTENTIONS["content"] = {"score": {"name": "content", "learned": True}}  # the plain cosine is too flat to select a word
ATTENTIONS["hard"] = {"score": "general", "hard": True}


def make_config(task: str, attention: str, steps: int, seed: int) -> Config:
    return resolve(
        {
            "recipe": f"{task}-{attention}",
            "seed": seed,
            "data": {"corpus": task, "size": 20_000, "shortest": 5, "longest": 15, "valid_fraction": 0.05},
            "text": {"tokenizer": "word", "joint": True},
            "model": {"family": "seq2seq", "dim": 128, "attention": "before", "dropout": 0.1, **ATTENTIONS[attention]},
            "task": {"name": "sequence"},
            "training": {
                "steps": steps,
                "batch_size": 128,
                "learning_rate": 2e-3,
                "schedule": {"name": "cosine", "warmup": steps // 10, "floor": 0.02},
                "evaluate_every": steps,
            },
            "decoding": {"method": "greedy", "max_new": 30},
        }
    )


def score_alignment(config: Config, task: Any) -> Accuracy:
    """Count how often the largest weight is on the right word, with teacher forcing."""
    pairs = PAIRS.read(config.data, config.seed)["valid"]
    accuracy = Accuracy()
    device = next(task.parameters()).device
    for start in range(0, len(pairs), 200):
        chunk = pairs[start : start + 200]
        batch = to_device(task.collate(task.encode(chunk)), device)
        places = torch.full(batch.targets.shape, -1)
        for row, pair in enumerate(chunk):
            for step in range(len(pair.target.split())):
                position = right_place(str(config.data.corpus), pair.source, step)
                assert position is not None
                places[row, step] = position
        accuracy += alignment_accuracy(attention_weights(task, batch).cpu(), places)
    return accuracy


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.attention_scores", description=__doc__)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tasks", nargs="*", default=TASKS, choices=TASKS)
    parser.add_argument("--attentions", nargs="*", default=list(ATTENTIONS), choices=list(ATTENTIONS))
    options = parser.parse_args()
    for name in options.attentions:
        for task in options.tasks:
            config = make_config(task, name, options.steps, options.seed)
            with tempfile.TemporaryDirectory() as folder:
                result = train_run(config, RunFolder(Path(folder) / "run"))
            exact, alignment = result.valid.measures["exact_match"], score_alignment(config, result.run.task)
            print(
                f"{name:10} {task:8} correct outputs {exact:6.2f} %, correct alignments {100 * alignment.value:6.2f} %,"
                f" {result.seconds:.0f} s",
                flush=True,
            )
