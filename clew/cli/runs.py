"""List the runs in a folder: progress, scores, and the settings that differ from the recipe.

For example:

  clew runs
  clew runs runs/cells --sort valid
  clew runs --json
  clew runs runs/shakespeare-lstm-search --plot search.html

Runs are searched in DIR and two levels of subfolders. The state is finished, interrupted, failed (with the reason),
running (another process is writing it), stopped (a pruned trial of a search) or averaged (by `clew runs average`). If
the terminal is too narrow for the table, each run is listed separately. Scores are those of the best evaluation. The
time is the training time, estimated from the logged speed if the run does not store it. A run that cannot be read is
reported on standard error and skipped; checkpoints of other programs are ignored. A module trained with `clew.fit` is
listed with the recipe `clew.fit`. If DIR is a search (`clew train
--search`), its trials are listed, with the best settings.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from clew.cli.terminal.progress import say

SORTS = ("name", "valid", "test", "steps", "time", "size", "newest")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("where", metavar="DIR", nargs="?", help="the folder to search (default: runs)")
    parser.add_argument(
        "--sort",
        choices=SORTS,
        default="name",
        help="sort by name, or with the best, largest or newest first (default: name)",
    )
    parser.add_argument("--reverse", action="store_true", help="reverse the order")
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON object per run; the field `fault` says why a run cannot be read",
    )
    parser.add_argument(
        "--plot", metavar="FILE", help="plot a search in FILE.html, .svg, .json (or .png, .pdf: needs matplotlib)"
    )


def run(options: argparse.Namespace) -> int:
    from clew.core.errors import UserError
    from clew.recipes.listed_runs import glance, read_resolved
    from clew.runs.folder.records import find_runs
    from clew.studies import is_study

    where = Path(options.where or "runs")
    if not where.is_dir() and options.where is not None:
        raise UserError(f"no such folder: {where}; give the folder that contains your runs")
    if is_study(where):
        from clew.cli.search import show_study

        return show_study(where, as_json=options.json, plot=options.plot, code=options.code)
    if options.plot is not None:
        raise UserError(
            f"--plot is for a search, but {where} is none; give the folder of one, such as runs/shakespeare-lstm-search"
        )
    runs: list[Any] = []
    changes_by_folder: dict[Path, dict[str, Any] | None] = {}
    faults: dict[Path, str] = {}
    resolved = read_resolved()
    for folder in find_runs(where) if where.is_dir() else []:
        try:
            listed = glance(folder, resolved) or read_whole(folder)
        except (UserError, OSError) as error:
            faults[folder] = code_note(folder, options) or str(error)
        else:
            runs.append(listed.run)
            changes_by_folder[folder] = listed.changes
    runs.sort(key=order(options.sort), reverse=options.reverse)
    if options.json:
        for each in runs:
            print(json.dumps(facts(each, changes_by_folder[each.folder]), ensure_ascii=False))
        for folder, fault in faults.items():
            print(json.dumps({"folder": str(folder), "fault": fault}, ensure_ascii=False))
    elif runs:
        show(runs, changes_by_folder)
    if not options.json:
        for fault in faults.values():
            say(f"cannot be read: {fault}")
    for each in runs:
        if each.state == "failed" and not options.json:
            say(f"{each.folder} failed: {each.failure}")
    if not runs and not faults:
        say(f"there is no run in {where}; train one first, e.g. `clew train shakespeare-lstm`")
    return 0


def code_note(folder: Path, options: argparse.Namespace) -> str:
    """Return what to pass for a run that was trained with a user's code, unless that is imported."""
    from clew.core.files import file_hash
    from clew.runs.folder.run_files import CODE

    own = folder / CODE
    if not own.is_file() or (
        options.code is not None
        and file_hash(own) in [file_hash(Path(file)) for file in (options.code, *options.more_code)]
    ):
        return ""
    return f"{folder} was trained with a user's code, and needs --code FILE; the run's copy is {own}"


def read_whole(folder: Path) -> Any:
    """Read a run with the whole library, if the quick listing cannot."""
    from types import SimpleNamespace

    from clew.recipes.resolving import changes
    from clew.runs.folder.summary import summarise

    run = summarise(folder)
    return SimpleNamespace(run=run, changes=changes(run.config, folder))


def order(sort: str) -> Any:
    """Return a sort key, which puts runs without the value last."""
    from clew.runs.folder.records import natural
    from clew.runs.folder.run_files import METRICS

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


def facts(run: Any, changes: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "folder": str(run.folder),
        "recipe": run.config.recipe,
        "changes": changes,
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


def show(runs: list[Any], changes_by_folder: dict[Path, dict[str, Any] | None]) -> None:
    """Print a row per run; changes that all runs share are printed once, below the table."""
    from clew.cli.terminal.tables import duration, number, show_table, show_text, size
    from clew.runs.folder.run_files import IMPORTED

    header = [
        "run",
        "recipe",
        "steps",
        "valid loss",
        "perplexity",
        "test perplexity",
        "measure",
        "time",
        "state",
        "size",
        "changed",
    ]
    listed = [
        ["(recipe unknown here)"] if (changes := changes_by_folder[run.folder]) is None else assignments(changes)
        for run in runs
    ]
    shared = [word for word in listed[0] if all(word in words for words in listed)] if len(runs) > 1 else []
    rows = []
    for run, words in zip(runs, listed, strict=True):
        scores = [
            number(run.best.get(name), digits)
            for name, digits in (("valid.loss", 4), ("valid.perplexity", 2), ("test.perplexity", 2))
        ]
        most = run.config.training.steps
        steps = "" if run.state == IMPORTED else str(run.step) if most is None else f"{run.step}/{most}"
        facts = [steps, *scores, measured(run), duration(run.seconds), run.state, size(run.size)]
        rows.append(
            [str(run.folder), run.config.recipe, *facts, " ".join(word for word in words if word not in shared)]
        )
    if all(run.measure == "loss" for run in runs):
        header, *rows = ([*row[:6], *row[7:]] for row in [header, *rows])
    show_table(header, rows, right=(2, 3, 4, 5, *(header.index(name) for name in ("time", "size"))), entries=True)
    if shared:
        show_text(f"changed in all runs: {' '.join(shared)}")


def measured(run: Any) -> str:
    """Return the value of the measure that selects the best evaluation, on the test data if there are any."""
    from clew.cli.terminal.tables import number

    if run.measure == "loss":
        return ""
    part = "test" if f"test.{run.measure}" in run.best else "valid"
    value = run.best.get(f"{part}.{run.measure}")
    return "" if value is None else f"{part} {run.measure} {number(value, 2)}"


def assignments(changed: dict[str, Any]) -> list[str]:
    """Return changed settings as arguments of `clew train`, where commas outside quotes would make a grid."""
    return [
        f"{name}={value if isinstance(value, str) and ',' not in value else json.dumps(value, ensure_ascii=False)}"
        for name, value in changed.items()
    ]
