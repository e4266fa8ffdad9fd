"""Train a recipe and save it as a run directory.

RECIPE is a name from `clew recipes`, or a YAML file that names one and overrides it. Settings are section.field=value.

  clew train shakespeare-lstm
  clew train shakespeare-lstm model.cell=gru training.steps=500
  clew train text-lstm data.train=book.txt --out runs/book
  clew train shakespeare-lstm --resume

Ctrl-C finishes the step, saves, and says how to go on.
"""

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recipe", metavar="RECIPE", help="a recipe's name, or a YAML file")
    parser.add_argument("settings", metavar="section.field=value", nargs="*", default=[], help="settings laid over the recipe's")
    parser.add_argument("--out", metavar="DIR", help="where the run goes (default: runs/RECIPE, then runs/RECIPE-2, ...)")
    parser.add_argument("--resume", action="store_true", help="go on with a run that was interrupted")


def run(options: argparse.Namespace) -> int:
    from clew.cli.progress import report
    from clew.recipes.running import run_recipe
    from clew.runs.directory import is_run
    from clew.training.processes import is_first
    from clew.training.signals import Interrupted

    code = None if options.code is None else Path(options.code)
    try:
        with report() as shown:
            result = run_recipe(
                options.recipe,
                options.settings,
                out=None if options.out is None else Path(options.out),
                resume=options.resume,
                code=code,
                report=shown,
            )
    except Interrupted as stop:
        again = f"; go on with `{resume_command(options, stop.folder)}`" if is_run(stop.folder) else ""
        raise Interrupted(stop.number, f"{stop}{again}", stop.folder) from None
    if is_first():
        try:
            show(options, result)
        except KeyboardInterrupt as stop:
            stop.args = (f"the run in {result.run.folder} is complete",)
            raise
    return 0


def show(options: argparse.Namespace, result: Any) -> None:
    """What the run came to, a sample of what it writes, and what can be done with it."""
    from clew.cli.progress import clock

    run = result.run
    unit = run.tokenizer.unit
    say(
        f"trained {result.step} steps in {clock(result.seconds)}; best validation at step {result.best_step}: {result.valid.describe(unit)}"
    )
    if result.test is not None:
        say(f"test: {result.test.describe(unit)}")
    say(f"a sample (temperature {run.config.decoding.temperature:g}):")
    print(run.generate([""], max_new=min(run.config.decoding.max_new, 400))[0].text, flush=True)
    say(what_next(options, run.folder, run.config.model.family))


def resume_command(options: argparse.Namespace, folder: Path) -> str:
    return command(options, "train", options.recipe, *options.settings, "--out", str(folder), "--resume")


def what_next(options: argparse.Namespace, folder: Path, family: str) -> str:
    prompt = ["ROMEO:"] if options.recipe.startswith("shakespeare") else []
    another = "model.num_layers=2" if family == "recurrent" else "model.dropout=0.1"
    commands = [
        command(options, "generate", str(folder), *prompt, "--temperature", "0.7"),
        command(options, "evaluate", str(folder)),
        command(options, "describe", str(folder)),
        command(options, "train", options.recipe, *options.settings, another),
    ]
    return "next:  " + "\n       ".join(commands)


def command(options: argparse.Namespace, *words: str) -> str:
    """A line that can be pasted into a shell, with the user's file where one was given."""
    return shlex.join(["clew", *words, *(["--code", options.code] if options.code else [])])


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
