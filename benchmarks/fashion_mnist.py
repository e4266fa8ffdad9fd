"""`python -m benchmarks.fashion_mnist [--steps N] [--only MODEL ...] [--seed N] [--limit N] [--out FOLDER]
[section.field=value ...]`: four models on Fashion-MNIST, each trained by its recipe, and how often they are right on
the test part.

All read the same pictures, shifted and mirrored in training, in batches of as many, for as many steps under the same
schedule. A row is printed as soon as its model is trained; with `--out` the runs are kept, below that folder.
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
HEAD = (
    "| model | recipe | test accuracy | validation accuracy | parameters | steps | seconds"
    " |\n|---|---|---|---|---|---|---|"
)


@dataclass(frozen=True)
class Row:
    """A line of the table. The seconds are of the training, its evaluations among them."""

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


def trained(model: str, settings: Sequence[str], out: Path) -> Row:
    return Row.of(model, run_recipe(MODELS[model], settings, out=out / MODELS[model]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fashion_mnist", description=__doc__)
    parser.add_argument("settings", nargs="*", help="settings of every run, e.g. training.precision=bfloat16")
    parser.add_argument("--steps", type=int, help="training steps; the recipes' own 8,000 where not given")
    parser.add_argument("--only", nargs="+", choices=MODELS, default=list(MODELS), help="some of the models")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=int, help="so many of the training pictures")
    parser.add_argument("--out", type=Path, help="where runs are kept; they are thrown away where not given")
    options = parser.parse_args()
    given = [f"seed={options.seed}"]
    if options.steps is not None:
        given += [f"training.steps={options.steps}", f"training.evaluate_every={max(options.steps // 5, 1)}"]
    if options.limit is not None:
        given.append(f"data.limit={options.limit}")
    given += options.settings
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else f"CPU, {torch.get_num_threads()} threads"
    print(f"{where}, torch {torch.__version__}\n\n{HEAD}", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        for name in options.only:
            print(trained(name, given, options.out or Path(scratch)), flush=True)
