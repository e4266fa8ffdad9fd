"""Train a recipe and save it as a run directory.

RECIPE is a name from `clew recipes`, or a YAML file that names a recipe and overrides its settings. On the command
line, overrides are section.field=value.

  clew train shakespeare-lstm
  clew train shakespeare-lstm model.cell=gru training.steps=500
  clew train text-lstm data.train=book.txt --out runs/book
  clew train shakespeare-lstm --resume
  clew train text-lstm data.train=book.txt --out runs/book --overwrite

The length of training is training.steps, or training.epochs instead. training.patience=3 stops early, after three
evaluations without improvement; there is one every training.evaluate_every steps. The run keeps the best weights.

  clew train classify data.train=tickets.csv training.epochs=10 training.patience=3

training.optimiser and training.schedule take a name, and their options follow after another dot. `clew recipes
shakespeare-lstm` prints all settings of a recipe, with explanations.

  clew train shakespeare-lstm training.optimiser=sgd training.optimiser.momentum=0.9 training.schedule.warmup=0.1

Commas make a grid: every combination of the recipes and values that they separate is trained once, in order, each in
its own folder.

  clew train shakespeare-lstm model.cell=elman,lstm,gru seed=1,2,3
  clew train shakespeare-lstm,shakespeare-gru seed=1,2 --out runs/cells

The folders are runs/shakespeare-lstm-cell=elman-seed=1 and so on, or inside --out. To resume a grid, repeat its
command: finished runs are skipped, and interrupted ones are resumed. A failed run does not stop the others; a table
at the end shows the result of each, and the exit code is 1 if one failed. A comma inside [..], {..} or double quotes
is part of the value: data.train='"here, there.txt"'. PowerShell needs quotes around "seed=1,2".

With --search N, commas and ranges define a search space, in which Optuna looks for the best validation score in N
trials. Each trial is a run in a folder inside runs/RECIPE-search. Ranges are low..high, or low..high:step; the scale
is logarithmic if the ends differ by a factor of 10 or more. Trials that fall behind are pruned at an evaluation. At
the end come the table of trials, the best settings as a command, and best.yaml; `clew runs FOLDER` shows them again.

  clew train shakespeare-lstm --search 40 model.dim=64..512 training.learning_rate=1e-4..1e-2 model.cell=lstm,gru
  clew train classify data.train=tickets.csv --search 20 model.dropout=0..0.5:0.1 --jobs 2 --plot search.html
  clew train shakespeare-lstm --search 60 --resume

Ctrl-C finishes the current step, saves, and prints the command that resumes the run. --quiet hides progress and
samples.
"""

import argparse
import shlex
from pathlib import Path
from typing import Any

from clew.cli.terminal.progress import say

NUM_EXAMPLES = 3
LONGEST = 100
"""Most characters of an example in a suggested command."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "recipe",
        metavar="RECIPE",
        help="the name of a recipe, or a YAML file; several, separated by commas, make a grid",
    )
    parser.add_argument(
        "settings",
        metavar="section.field=value",
        nargs="*",
        default=[],
        help="override settings of the recipe; several values, separated by commas, make a grid",
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        help="the folder of the run, or of a grid's runs (default: runs/RECIPE, then runs/RECIPE-2, ...)",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace the run in --out; a folder that is not a run is never deleted"
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="resume an interrupted run or search; a grid resumes without it",
    )
    parser.add_argument(
        "--search", metavar="N", help="search for the best values of the settings that have several, in N trials"
    )
    parser.add_argument(
        "--jobs", metavar="N", help="run N trials of a search in parallel, each in its own process (default: 1)"
    )
    parser.add_argument(
        "--plot", metavar="FILE", help="plot the search in FILE.html, .svg, .json (or .png, .pdf: needs matplotlib)"
    )


def run(options: argparse.Namespace) -> int:
    from clew.cli.search import check_no_search, run_search
    from clew.cli.terminal.progress import report
    from clew.core.errors import UserError
    from clew.recipes.grid import expand

    if options.more_code:
        raise UserError(
            f"a run stores one file of code, but --code names {1 + len(options.more_code)}; combine them into one file"
        )
    if options.search is not None:
        return run_search(options)
    check_no_search(options)
    combination, *other_combinations = expand(options.recipe, options.settings)
    if other_combinations:
        if options.overwrite:
            raise UserError(
                "--overwrite replaces one run, but this is a grid of several; leave it out, or delete the folders first"
            )
        from clew.cli.grid import run_grid

        return run_grid(options)
    with report() as shown:
        shown.stage("loading torch")  # this takes seconds, and the bar already shows
        result = train_one(options, combination, shown)
    from clew.core.processes import is_first

    if is_first() and not options.quiet:
        try:
            show(options, result)
        except KeyboardInterrupt as stop:
            stop.args = (f"the run in {result.run.folder} is complete",)
            raise
    return 0


def train_one(options: argparse.Namespace, combination: Any, shown: Any) -> Any:
    """Train one run and return the result; if interrupted, say how to resume."""
    from clew.recipes.running import run_recipe
    from clew.runs.folder.run_files import is_run
    from clew.training.signals import Interrupted

    out, code = (None if place is None else Path(place) for place in (options.out, options.code))
    try:
        return run_recipe(
            combination.recipe,
            combination.assignments,
            out=out,
            resume=options.resume,
            overwrite=options.overwrite,
            code=code,
            report=shown,
        )
    except Interrupted as stop:
        advice = f"; resume with `{resume_command(options, stop.folder)}`" if is_run(stop.folder) else ""
        raise Interrupted(stop.number, f"{stop}{advice}", stop.folder) from None


def show(options: argparse.Namespace, result: Any) -> None:
    """Print the scores, a sample or some validation examples, and the commands to try next."""
    from clew.cli.terminal.progress import clock

    run = result.run
    say(
        f"trained {result.step} steps in {clock(result.seconds)}; best validation at step {result.best_step}:"
        f" {result.valid}"
    )
    if result.test is not None:
        say(f"test: {result.test}")
    verb, use = next(iter(run.uses.items()), ("", None))
    if use is not None and use.begins:
        say(f"a sample (temperature {run.config.decoding.temperature:g}):")
        [samples] = run.ask(verb, [""], max_new=min(run.config.decoding.max_new, 400))
        print(samples[0].text, flush=True)
    examples = list(result.valid.predictions.values())[:NUM_EXAMPLES]
    for fields in examples:
        second = f"second:  {fields['second']}\n" if "second" in fields else ""
        print(
            f"source:  {fields['source']}\n{second}wanted:  {fields['target']}\nwritten: {fields['prediction']}\n",
            flush=True,
        )
    say(next_commands(options, run, examples[0] if examples else {}))


def resume_command(options: argparse.Namespace, folder: Path) -> str:
    return command(options, "train", options.recipe, *options.settings, "--out", str(folder), "--resume")


def next_commands(options: argparse.Namespace, run: Any, example: dict[str, str]) -> str:
    folder, family = str(run.folder), run.config.model.family
    override = "model.num_layers=2" if family in ("recurrent", "seq2seq") else "model.dropout=0.1"
    commands = [
        try_command(options, run, example),
        command(options, "evaluate", folder),
        command(options, "describe", folder),
        command(options, "inspect", folder),
        command(options, "train", *training_words(options, run), override),
    ]
    return "next:  " + "\n       ".join(commands)


def training_words(options: argparse.Namespace, run: Any) -> list[str]:
    """Return the recipe and overrides from the command line, or from the config of a resumed run."""
    from clew.cli.runs import assignments
    from clew.recipes.resolving import changes

    changed = changes(run.config, run.folder) if options.resume else None
    return [options.recipe, *options.settings] if changed is None else [run.config.recipe, *assignments(changed)]


def try_command(options: argparse.Namespace, run: Any, example: dict[str, str]) -> str:
    """Return a command that applies the run to an example."""
    from clew.runs.asking import entry_of

    folder = str(run.folder)
    verb, use = next(iter(entry_of(run.config).uses.items()), ("", None))
    if use is None:
        return command(options, "train", "ewt-tagger", f"embedding.from={folder}")
    prompt = SAMPLES.get((options.recipe.partition("-")[0], verb))
    if use.begins:
        return command(options, verb, folder, *([prompt] if prompt else []), "--temperature", "0.7")
    if use.try_it is not None:
        words, text = use.try_it(example)
        words = [prompt] if prompt else [on_one_line(word) for word in words]
        return (
            command(options, verb, folder, *words)
            if text is None
            else f"{shlex.join(['echo', text])} | {command(options, verb, folder)}"
        )
    flags = [word for name in use.options.model_fields if name in example for word in (f"--{name}", example[name])]
    texts = [on_one_line(example[side]) for side in ("source", "second") if side in example]
    printing = ["echo", *texts] if len(texts) == 1 else ["printf", r"%s\t%s\n", *texts]
    return f"{shlex.join(printing)} | {command(options, verb, folder, *flags)}"


SAMPLES = {("shakespeare", "generate"): "ROMEO:", ("shakespeare", "fill"): "To be or not to [MASK]"}
"""Prompts for runs on an embedded corpus."""


def on_one_line(text: str) -> str:
    """Return a text on one line, truncated at a space if it is long."""
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else text[:LONGEST].rpartition(" ")[0] or text[:LONGEST]


def command(options: argparse.Namespace, *words: str) -> str:
    """Return a command to paste into a shell, with --code if the user gave it."""
    return shlex.join(["clew", *words, *(["--code", options.code] if options.code else [])])
