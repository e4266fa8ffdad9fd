"""Show the layers of a run's or a recipe's model, with their shapes and numbers of parameters.

For example:

  clew describe shakespeare-gpt
  clew describe runs/shakespeare-lstm --json
"""

import argparse
import json
import os
from pathlib import Path
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", metavar="RUN", help="a run directory, or a recipe's name")
    parser.add_argument(
        "settings", metavar="section.field=value", nargs="*", default=[], help="override settings of the recipe"
    )
    parser.add_argument("--json", action="store_true", help="print JSON lines")


def run(options: argparse.Namespace) -> int:
    task = task_of(options)
    rows = [
        {
            "path": path,
            "kind": type(module).__name__,
            "shapes": shapes(module),
            "parameters": sum(p.numel() for p in module.parameters()),
        }
        for path, module in task.named_modules()
        if path and any(True for _ in module.parameters())
    ]
    total = sum(p.numel() for p in task.parameters())
    own = {name: tuple(p.shape) for name, p in task.named_parameters(recurse=False)}
    if options.json:
        for row in rows:
            print(json.dumps(row))
        print(
            json.dumps(
                {
                    "path": "",
                    "kind": type(task).__name__,
                    "shapes": {k: list(v) for k, v in own.items()},
                    "parameters": total,
                }
            )
        )
        return 0
    width, kinds = (
        max(len(indented(row)) for row in rows),
        max(len(row["kind"]) for row in [*rows, {"kind": type(task).__name__}]),
    )
    for row in rows:
        line = f"{indented(row):{width}}  {row['kind']:{kinds}} {row['parameters']:>12,}"
        print(f"{line}  {describe_shapes(row['shapes'])}".rstrip())
    if own:
        print(
            f"{'output':{width}}  {'':{kinds}} {sum(task.get_parameter(name).numel() for name in own):>12,} "
            f" {describe_shapes(own)}"
        )
    print(f"{'total':{width}}  {type(task).__name__:{kinds}} {total:>12,}")
    return 0


def task_of(options: argparse.Namespace) -> Any:
    from clew.core.errors import UserError, did_you_mean
    from clew.recipes import RECIPES
    from clew.recipes.resolving import config_of
    from clew.runs.build import build_task
    from clew.runs.folder.run_files import is_run
    from clew.runs.loaded import load_run

    if is_run(Path(options.what)) or options.what not in RECIPES:
        if not os.path.exists(options.what):
            near = did_you_mean(options.what, RECIPES)
            raise UserError(
                f"{options.what} is neither a run directory nor a recipe{near} `clew recipes` lists the recipes"
            )
        if options.settings:
            raise UserError(
                f"settings override recipes only, and {options.what} is a run; leave {' '.join(options.settings)} out"
            )
        return load_run(options.what, device="cpu", code=None if options.code is None else Path(options.code)).task
    config = config_of(options.what, options.settings)
    return build_task(config, vocabularies_of(config), to_train=False)


def vocabularies_of(config: Any) -> dict[str, Any]:
    """Build the vocabularies that a recipe's training would start with."""
    from clew.data.notes import Notes
    from clew.tasks import TASKS
    from clew.training.problems import agreed_vocabularies

    learning = TASKS[config.task.name].learns
    train = learning.read(config.data, config.seed, Notes(faults=config.data.faults))["train"]
    return agreed_vocabularies(config, learning, None, train)


def shapes(module: Any) -> dict[str, list[int]]:
    return {name: list(p.shape) for name, p in module.named_parameters(recurse=False)}


def indented(row: dict[str, Any]) -> str:
    *above, name = row["path"].split(".")
    return "  " * len(above) + name


def describe_shapes(shapes: dict[str, Any]) -> str:
    return ", ".join(f"{name} {' x '.join(map(str, shape))}" for name, shape in shapes.items())
