"""`clew train` with a grid: trains every combination, names the current one, and shows one table at the end."""

import argparse
import glob
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clew.cli.terminal.progress import say
from clew.cli.terminal.tables import duration, number, show_table


def run_grid(options: argparse.Namespace) -> int:
    """Train a grid. Return 0 if every run has finished, and 1 if one failed or another process is training it. A signal
    leads to 130 or 143."""
    from clew.core.processes import process_group
    from clew.recipes.many import plan_grid

    code = None if options.code is None else Path(options.code)
    grid = plan_grid(options.recipe, options.settings, parent=Path(options.out or "runs"), code=code)
    with process_group(grid[0].config.device):
        return run_all(options, grid, code)


def run_all(options: argparse.Namespace, grid: Sequence[Any], code: Path | None) -> int:
    from clew.cli.terminal.progress import report
    from clew.core.errors import UserError
    from clew.core.processes import from_first, is_first
    from clew.recipes.many import is_done, run_planned
    from clew.runs.folder.lock import is_locked
    from clew.training.signals import Interrupted

    def state_of(planned: Any) -> str:
        return "done" if is_done(planned) else "locked" if is_locked(planned.folder) else "open"

    failures: dict[Path, str] = {}
    try:
        for count, planned in enumerate(grid, start=1):
            title = f"run {count} of {len(grid)}, {planned.folder}"
            state = from_first(lambda planned=planned: state_of(planned))  # type: ignore[misc]
            if state == "done":
                say(f"{title}: already finished")
                continue
            if state == "locked":
                failures[planned.folder] = "another process is writing it"
                say(f"{title}: {failures[planned.folder]}; skipped")
                continue
            say(title)
            try:
                with report() as shown:
                    run_planned(planned, code=code, report=shown)
            except (Interrupted, KeyboardInterrupt):
                raise
            except Exception as error:
                if options.debug:
                    raise
                failures[planned.folder] = reason(error, UserError)
                say(f"{title}: failed: {failures[planned.folder]}")
    except (Interrupted, KeyboardInterrupt) as stop:
        show(grid)
        signal = stop.number if isinstance(stop, Interrupted) else 2
        done = sum(map(is_done, grid))
        raise Interrupted(
            signal, f"stopped; {done} of {len(grid)} runs are finished; resume with `{same_command(options)}`", Path()
        ) from None
    if not is_first():
        return 1 if failures else 0
    show(grid)
    for folder, failure in failures.items():
        say(f"{folder}: {failure}")
    say(f"next:  {shlex.join(['clew', 'runs', 'compare', *pattern_of([planned.folder for planned in grid])])}")
    return 1 if failures else 0


def reason(error: Exception, mistake: type[Exception]) -> str:
    kind = "" if isinstance(error, (mistake, OSError)) else f"{type(error).__name__}: "
    return kind + " ".join(str(error).split())


def same_command(options: argparse.Namespace) -> str:
    """Return the command that was given, which resumes the grid."""
    out = ["--out", options.out] if options.out else []
    code = ["--code", options.code] if options.code else []
    return shlex.join(["clew", "train", options.recipe, *options.settings, *out, *code])


def pattern_of(folders: Sequence[Path]) -> list[str]:
    """Return the pattern that matches exactly these folders, if there is one, or else the folders."""
    parent = folders[0].parent
    pattern = glob.escape(os.path.commonprefix([folder.name for folder in folders])) + "*"
    return [str(parent / pattern)] if set(parent.glob(pattern)) == set(folders) else [str(folder) for folder in folders]


def show(grid: Sequence[Any]) -> None:
    """Print a row per run: its settings in the grid, and its scores."""
    from clew.recipes.many import is_done
    from clew.runs.folder.run_files import is_run
    from clew.runs.folder.summary import summarise

    has_recipes = len({planned.combination.recipe for planned in grid}) > 1
    fields = [name for name, _ in grid[0].combination.chosen]
    header = [
        *(["recipe"] if has_recipes else []),
        *fields,
        "steps",
        "valid loss",
        "perplexity",
        "test perplexity",
        "time",
        "state",
        "folder",
    ]
    rows = []
    for planned in grid:
        chosen = [
            *([planned.combination.recipe] if has_recipes else []),
            *(value for _, value in planned.combination.chosen),
        ]
        epochs, steps = planned.config.training.epochs, planned.config.training.steps
        if not is_run(planned.folder):
            rows.append(
                [*chosen, f"0/{steps}" if epochs is None else "0", "", "", "", "", "not started", str(planned.folder)]
            )
            continue
        run = summarise(planned.folder)
        scores = [
            number(run.best.get(name), digits)
            for name, digits in (("valid.loss", 4), ("valid.perplexity", 2), ("test.perplexity", 2))
        ]
        steps = steps if epochs is None else run.config.training.steps
        state = "finished" if is_done(planned) else run.state
        rows.append([*chosen, f"{run.step}/{steps}", *scores, duration(run.seconds), state, str(planned.folder)])
    first = len(header) - 7
    show_table(header, rows, right=range(first, first + 5))
