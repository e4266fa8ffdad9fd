"""List the runs below a folder: what each departs from its recipe in, how far it came, and what it scores.

For example:

  clew runs
  clew runs runs/cells --sort valid
  clew runs --json

DIR and two levels of folders below it are looked through. The state is finished, interrupted, failed (and why),
running (another process is writing it) or averaged (by `clew average`). On a terminal
that is too narrow for the table, each run is an entry of its own. Scores are those of the best evaluation;
the time is that of training, from the speed that was logged where the run does not say it. A run that
cannot be read is named on standard error and stops nothing; checkpoints of other programs' are passed over.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from clew.cli.progress import say

SORTS = ("name", "valid", "test", "steps", "time", "size", "newest")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("where", metavar="DIR", nargs="?", help="the folder to look through (default: runs)")
    parser.add_argument(
        "--sort", choices=SORTS, default="name", help="the order: by name, or the best, most or newest first (default: name)"
    )
    parser.add_argument("--reverse", action="store_true", help="the other way round")
    parser.add_argument("--json", action="store_true", help="one JSON object a run; one that cannot be read has a field `fault`")


def run(options: argparse.Namespace) -> int:
    from clew.core.errors import UserError
    from clew.runs.summary import Summary, find_runs, summarise

    where = Path(options.where or "runs")
    if not where.is_dir() and options.where is not None:
        raise UserError(f"no such folder: {where}; give the one that your runs are below")
    runs: list[Summary] = []
    faults: dict[Path, str] = {}
    for folder in find_runs(where) if where.is_dir() else []:
        try:
            runs.append(summarise(folder))
        except (UserError, OSError) as error:
            faults[folder] = str(error)
    runs.sort(key=order(options.sort), reverse=options.reverse)
    if options.json:
        for each in runs:
            print(json.dumps(facts(each), ensure_ascii=False))
        for folder, fault in faults.items():
            print(json.dumps({"folder": str(folder), "fault": fault}, ensure_ascii=False))
    elif runs:
        show(runs)
    if not options.json:
        for fault in faults.values():
            say(f"cannot be read: {fault}")
    for each in runs:
        if each.state == "failed" and not options.json:
            say(f"{each.folder} failed: {each.failure}")
    if not runs and not faults:
        say(f"there is no run below {where}; train one first, e.g. `clew train shakespeare-lstm`")
    return 0


def order(sort: str) -> Any:
    """A key: what a run does not have goes last."""
    from clew.runs.directory import METRICS
    from clew.runs.summary import natural

    def written(run: Any) -> float:
        path = run.folder / METRICS
        return path.stat().st_mtime if path.exists() else 0.0

    keys = {
        "name": lambda run: [natural(part) for part in run.folder.parts],
        "valid": lambda run: run.best.get("valid.loss", float("inf")),
        "test": lambda run: run.best.get("test.loss", float("inf")),
        "steps": lambda run: -run.step,
        "time": lambda run: -(run.seconds or 0.0),
        "size": lambda run: -run.size,
        "newest": lambda run: -written(run),
    }
    return keys[sort]


def facts(run: Any) -> dict[str, Any]:
    from clew.recipes.running import changes

    return {
        "folder": str(run.folder),
        "recipe": run.config.recipe,
        "changes": changes(run.config, run.folder),
        "seed": run.config.seed,
        "step": run.step,
        "steps": run.config.training.steps,
        **run.best,
        "seconds": run.seconds,
        "state": run.state,
        "failure": run.failure,
        "averaged": run.averaged or None,
        "bytes": run.size,
    }


def show(runs: list[Any]) -> None:
    """A row a run. What every run changed in the same way is said once, below."""
    from clew.cli.tables import duration, number, show_table, size
    from clew.recipes.running import changes
    from clew.runs.directory import IMPORTED

    header = ["run", "recipe", "steps", "valid loss", "perplexity", "test perplexity", "measure", "time", "state", "size", "changed"]
    listed = [["(recipe unknown here)"] if (found := changes(run.config, run.folder)) is None else assignments(found) for run in runs]
    shared = [word for word in listed[0] if all(word in words for words in listed)] if len(runs) > 1 else []
    rows = []
    for run, words in zip(runs, listed, strict=True):
        scores = [
            number(run.best.get(name), digits) for name, digits in (("valid.loss", 4), ("valid.perplexity", 2), ("test.perplexity", 2))
        ]
        steps = "" if run.state == IMPORTED else f"{run.step}/{run.config.training.steps}"
        facts = [steps, *scores, measured(run), duration(run.seconds), run.state, size(run.size)]
        rows.append([str(run.folder), run.config.recipe, *facts, " ".join(word for word in words if word not in shared)])
    if all(run.measure == "loss" for run in runs):
        header, *rows = ([*row[:6], *row[7:]] for row in [header, *rows])
    show_table(header, rows, right=(2, 3, 4, 5, *(header.index(name) for name in ("time", "size"))), entries=True)
    if shared:
        print(f"all of them changed {' '.join(shared)}")


def measured(run: Any) -> str:
    """The value of what the run's best evaluation was chosen by, on the test data where there are some."""
    from clew.cli.tables import number

    if run.measure == "loss":
        return ""
    part = "test" if f"test.{run.measure}" in run.best else "valid"
    value = run.best.get(f"{part}.{run.measure}")
    return "" if value is None else f"{part} {run.measure} {number(value, 2)}"


def assignments(changed: dict[str, Any]) -> list[str]:
    """Settings as they could be given to `clew train`, where commas outside of quotes make a grid."""
    return [
        f"{name}={value if isinstance(value, str) and ',' not in value else json.dumps(value, ensure_ascii=False)}"
        for name, value in changed.items()
    ]
