"""Train a recipe and save it as a run directory.

RECIPE is a name from `clew recipes`, or a YAML file that names one and overrides it. Settings are section.field=value.

  clew train shakespeare-lstm
  clew train shakespeare-lstm model.cell=gru training.steps=500
  clew train text-lstm data.train=book.txt --out runs/book
  clew train shakespeare-lstm --resume
  clew train text-lstm data.train=book.txt --out runs/book --overwrite

How long: training.steps, or training.epochs in their place. training.patience=3 stops early, after three evaluations
(one every training.evaluate_every steps) without a better one; the weights of the best are the run's.

  clew train classify data.train=tickets.csv training.epochs=10 training.patience=3

By what: training.optimiser and training.schedule take a name, with options behind another dot; `clew recipes
shakespeare-lstm` prints all settings of a recipe and what each does.

  clew train shakespeare-lstm training.optimiser=sgd training.optimiser.momentum=0.9 training.schedule.warmup=0.1

Commas make a grid: every combination of the recipes and values that they separate is trained once, in order, in a
folder of its own.

  clew train shakespeare-lstm model.cell=elman,lstm,gru seed=1,2,3
  clew train shakespeare-lstm,shakespeare-gru seed=1,2 --out runs/cells

The folders are runs/shakespeare-lstm-cell=elman-seed=1 and so on, or below --out. The same command again passes
over finished runs and goes on with interrupted ones. One that fails stops no other: a table at the end says what
came of each, and the exit code is 1 where one failed. A comma inside [..], {..} or double quotes is part of its
value: data.train='"here, there.txt"'. PowerShell wants quotes around "seed=1,2".

With --search commas and ranges are searched instead: so many trials, each a run in a folder below
runs/RECIPE-search, chosen by Optuna for the best validation score. Ranges are low..high, or low..high:step; where
the ends are a factor of 10 or more apart the scale is logarithmic. Trials that fall behind are pruned at an
evaluation. The table, the best settings as a command and best.yaml come at the end, and from `clew runs FOLDER`.

  clew train shakespeare-lstm --search 40 model.dim=64..512 training.learning_rate=1e-4..1e-2 model.cell=lstm,gru
  clew train classify data.train=tickets.csv --search 20 model.dropout=0..0.5:0.1 --jobs 2 --plot search.html
  clew train shakespeare-lstm --search 60 --resume

Ctrl-C finishes the step, saves, and says how to go on. --quiet shows neither progress nor samples.
"""

import argparse
import shlex
from pathlib import Path
from typing import Any

from clew.cli.terminal.progress import say

NUM_EXAMPLES = 3
LONGEST = 100
"""Characters of an example that are shown in a command."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recipe", metavar="RECIPE", help="a recipe's name, or a YAML file; several with commas")
    parser.add_argument(
        "settings",
        metavar="section.field=value",
        nargs="*",
        default=[],
        help="overrides of the recipe's settings; several values with commas",
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        help="where the run goes (default: runs/RECIPE, then runs/RECIPE-2, ...); a grid goes below it",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace the run at --out; only a run of clew's is ever deleted"
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on with a run or a search that was interrupted; a grid does so by itself",
    )
    parser.add_argument(
        "--search", metavar="N", help="search the settings that have ranges or several values, in N trials"
    )
    parser.add_argument(
        "--jobs", metavar="N", help="trials of a search that are trained at once, each in a process (default: 1)"
    )
    parser.add_argument(
        "--plot", metavar="FILE", help="draw the search into FILE.html, .svg, .json (or .png, .pdf: matplotlib)"
    )


def run(options: argparse.Namespace) -> int:
    from clew.cli.search import check_no_search, run_search
    from clew.cli.terminal.progress import report
    from clew.core.errors import UserError
    from clew.recipes.grid import expand

    if options.more_code:
        raise UserError(
            f"a run keeps one file of yours, and --code names {1 + len(options.more_code)}; put what it needs into one"
        )
    if options.search is not None:
        return run_search(options)
    check_no_search(options)
    one, *others = expand(options.recipe, options.settings)
    if others:
        if options.overwrite:
            raise UserError(
                "--overwrite replaces one run, and this is a grid of several; leave it out, or remove the folders first"
            )
        from clew.cli.grid import run_grid

        return run_grid(options)
    with report() as shown:
        shown.stage("loading torch")  # the bar is there while that takes its seconds
        result = trained(options, one, shown)
    from clew.core.processes import is_first

    if is_first() and not options.quiet:
        try:
            show(options, result)
        except KeyboardInterrupt as stop:
            stop.args = (f"the run in {result.run.folder} is complete",)
            raise
    return 0


def trained(options: argparse.Namespace, one: Any, shown: Any) -> Any:
    """The result of one run; an interruption says how to go on."""
    from clew.recipes.running import run_recipe
    from clew.runs.directory import is_run
    from clew.training.signals import Interrupted

    out, code = (None if place is None else Path(place) for place in (options.out, options.code))
    try:
        return run_recipe(
            one.recipe,
            one.assignments,
            out=out,
            resume=options.resume,
            overwrite=options.overwrite,
            code=code,
            report=shown,
        )
    except Interrupted as stop:
        again = f"; go on with `{resume_command(options, stop.folder)}`" if is_run(stop.folder) else ""
        raise Interrupted(stop.number, f"{stop}{again}", stop.folder) from None


def show(options: argparse.Namespace, result: Any) -> None:
    """What the run came to, a sample of what it writes or some validation examples, and what can be done with it."""
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
        [written] = run.ask(verb, [""], max_new=min(run.config.decoding.max_new, 400))
        print(written[0].text, flush=True)
    shown = list(result.valid.predictions.values())[:NUM_EXAMPLES]
    for fields in shown:
        second = f"second:  {fields['second']}\n" if "second" in fields else ""
        print(
            f"source:  {fields['source']}\n{second}wanted:  {fields['target']}\nwritten: {fields['prediction']}\n",
            flush=True,
        )
    say(what_next(options, run, shown[0] if shown else {}))


def resume_command(options: argparse.Namespace, folder: Path) -> str:
    return command(options, "train", options.recipe, *options.settings, "--out", str(folder), "--resume")


def what_next(options: argparse.Namespace, run: Any, example: dict[str, str]) -> str:
    folder, family = str(run.folder), run.config.model.family
    another = "model.num_layers=2" if family in ("recurrent", "seq2seq") else "model.dropout=0.1"
    commands = [
        used(options, run, example),
        command(options, "evaluate", folder),
        command(options, "describe", folder),
        command(options, "inspect", folder),
        command(options, "train", *trained_again(options, run), another),
    ]
    return "next:  " + "\n       ".join(commands)


def trained_again(options: argparse.Namespace, run: Any) -> list[str]:
    """The recipe and its settings, as they were given; of a run that was gone on with, as its config has them."""
    from clew.cli.runs import assignments
    from clew.recipes.running import changes

    changed = changes(run.config, run.folder) if options.resume else None
    return [options.recipe, *options.settings] if changed is None else [run.config.recipe, *assignments(changed)]


def used(options: argparse.Namespace, run: Any, example: dict[str, str]) -> str:
    """What the run is for: a command that asks about an example."""
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
    more = [word for name in use.options.model_fields if name in example for word in (f"--{name}", example[name])]
    texts = [on_one_line(example[side]) for side in ("source", "second") if side in example]
    given = ["echo", *texts] if len(texts) == 1 else ["printf", r"%s\t%s\n", *texts]
    return f"{shlex.join(given)} | {command(options, verb, folder, *more)}"


SAMPLES = {("shakespeare", "generate"): "ROMEO:", ("shakespeare", "fill"): "To be or not to [MASK]"}
"""What a run on an embedded corpus is best tried with."""


def on_one_line(text: str) -> str:
    """A text as one line, its end left out where it is long."""
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else text[:LONGEST].rpartition(" ")[0] or text[:LONGEST]


def command(options: argparse.Namespace, *words: str) -> str:
    """A line that can be pasted into a shell, with the user's file where one was given."""
    return shlex.join(["clew", *words, *(["--code", options.code] if options.code else [])])
