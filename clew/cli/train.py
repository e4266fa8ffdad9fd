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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recipe", metavar="RECIPE", help="a recipe's name, or a YAML file")
    parser.add_argument("settings", metavar="section.field=value", nargs="*", default=[], help="settings laid over the recipe's")
    parser.add_argument("--out", metavar="DIR", help="where the run goes (default: runs/RECIPE, then runs/RECIPE-2, ...)")
    parser.add_argument("--resume", action="store_true", help="go on with a run that was interrupted")


def run(options: argparse.Namespace) -> int:
    from clew.cli.progress import clock, report
    from clew.recipes.running import run_recipe
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
        raise Interrupted(stop.number, f"{stop}; go on with `{resume_command(options, stop)}`") from None
    run = result.run
    unit = run.tokenizer.unit
    say(
        f"trained {result.step} steps in {clock(result.seconds)}; best validation at step {result.best_step}: {result.valid.describe(unit)}"
    )
    if result.test is not None:
        say(f"test: {result.test.describe(unit)}")
    say(f"a sample (temperature {run.config.decoding.temperature:g}):")
    print(run.generate([""], max_new=min(run.config.decoding.max_new, 400))[0].text, flush=True)
    say(what_next(options, run.folder))
    return 0


def resume_command(options: argparse.Namespace, stop: Exception) -> str:
    folder = str(stop).split("; saved in ", 1)[-1]
    code = ["--code", options.code] if options.code else []
    return shlex.join(["clew", "train", options.recipe, *options.settings, "--out", folder, "--resume", *code])


def what_next(options: argparse.Namespace, folder: Path) -> str:
    code = f" --code {options.code}" if options.code else ""
    prompt = " 'ROMEO:'" if options.recipe.startswith("shakespeare") else ""
    return (
        f"next:  clew generate {folder}{prompt} --temperature 0.7{code}\n"
        f"       clew evaluate {folder}{code}          clew describe {folder}{code}\n"
        f"       clew train {options.recipe} model.{'cell=gru' if 'lstm' in options.recipe else 'num_layers=2'} "
        f"          clew recipes"
    )


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
