"""`python -m benchmarks.fashion_mnist [--steps N] [--only MODEL ...] [--seed N] [--limit N] [--out FOLDER]
[section.field=value ...]`: train four models on Fashion-MNIST, each by its recipe, and compare their test accuracy.

All models read the same pictures, shifted and mirrored during training, with the same batch size, number of steps and
schedule. A row is printed as soon as its model is trained. `--out` keeps the runs below that folder.
"""

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from clew.recipes.running import run_recipe
from clew.training.run import Result

MODELS = {
    "2-D LSTM": "fashion-mnist-grid",
    "row LSTM": "fashion-mnist-rows",
    "ViT": "fashion-mnist-vit",
    "ResNet": "fashion-mnist-resnet",
}
HEADER = (
    "| model | recipe | test accuracy | validation accuracy | parameters | steps | seconds"
    " |\n|---|---|---|---|---|---|---|"
)


@dataclass(frozen=True)
class Row:
    """A row of the table. `seconds` is the training time, including evaluations."""

    model: str
    recipe: str
    test: float
    valid: float
    parameters: int
    steps: int
    seconds: float

    @classmethod
    def of(cls, model: str, result: Result) -> "Row":
        assert result.test is not None  # Fashion-MNIST has a test part
        count = sum(parameter.numel() for parameter in result.run.task.parameters())
        accuracies = (score.measures["accuracy"] for score in (result.test, result.valid))
        return cls(model, result.run.config.recipe, *accuracies, count, result.step, result.seconds)

    def __str__(self) -> str:
        cells = [
            f"`{self.recipe}`",
            f"{self.test:.2f}",
            f"{self.valid:.2f}",
            f"{self.parameters:,}",
            f"{self.steps:,}",
            f"{self.seconds:.0f}",
        ]
        return f"| {' | '.join([self.model, *cells])} |"


def train_model(model: str, settings: Sequence[str], out: Path) -> Row:
    return Row.of(model, run_recipe(MODELS[model], settings, out=out / MODELS[model]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fashion_mnist", description=__doc__)
    parser.add_argument("settings", nargs="*", help="overrides for every run, e.g. training.precision=bfloat16")
    parser.add_argument("--steps", type=int, help="training steps (default: 8,000, from the recipes)")
    parser.add_argument("--only", nargs="+", choices=MODELS, default=list(MODELS), help="train only these models")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=int, help="number of training pictures (default: all)")
    parser.add_argument("--out", type=Path, help="folder of the runs (default: a temporary folder)")
    options = parser.parse_args()
    overrides = [f"seed={options.seed}"]
    if options.steps is not None:
        overrides += [f"training.steps={options.steps}", f"training.evaluate_every={max(options.steps // 5, 1)}"]
    if options.limit is not None:
        overrides.append(f"data.limit={options.limit}")
    overrides += options.settings
    hardware = torch.cuda.get_device_name() if torch.cuda.is_available() else f"CPU, {torch.get_num_threads()} threads"
    print(f"{hardware}, torch {torch.__version__}\n\n{HEADER}", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        for name in options.only:
            print(train_model(name, overrides, options.out or Path(scratch)), flush=True)
