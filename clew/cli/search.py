"""`clew train --search`, and how `clew runs` shows a search: the table of trials, the best settings, a plot."""

import argparse
import json
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew.cli.terminal.progress import say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from clew.studies.result import Search

WORKER = [sys.executable, "-m", "clew.cli.trial"]
"""The command that starts a worker process."""


def run_search(options: argparse.Namespace) -> int:
    from clew.cli.terminal.progress import report
    from clew.core.errors import UserError
    from clew.studies import is_study
    from clew.studies.searching import search
    from clew.studies.study import load_optuna
    from clew.training.signals import Interrupted

    if options.overwrite:
        raise UserError(
            "--overwrite replaces one run, but a search writes a folder of several; leave it out, or choose another"
            " folder with --out"
        )
    load_optuna()
    check_plot(options.plot)
    code = None if options.code is None else Path(options.code)
    try:
        result = search(
            options.recipe,
            options.settings,
            trials=parse_int("--search", options.search),
            jobs=parse_int("--jobs", options.jobs or "1"),
            out=None if options.out is None else Path(options.out),
            resume=options.resume,
            code=code,
            say=(lambda text: None) if options.quiet else say,
            reporting=report,
            worker=WORKER,
            debug=options.debug,
        )
    except Interrupted as stop:
        if is_study(stop.folder):
            show_study(stop.folder, plot=options.plot, code=options.code)
        raise Interrupted(
            stop.number, f"{stop}; resume with `{resume_command(options, stop.folder)}`", stop.folder
        ) from None
    show(result, options.plot, options.code)
    return 0 if result.has_best else 1


def search_from_python(
    recipe: str,
    space: "Mapping[str, Any]",
    assignments: "Sequence[str]",
    keywords: "Mapping[str, Any]",
    trials: int,
    jobs: int,
    data: Any,
    out: "Path | str | None",
    resume: bool,
    code: "Path | str | None",
    quiet: bool,
) -> "Search":
    """Run a search for `clew.search`."""
    from contextlib import nullcontext

    from clew.cli.options.code import load_code
    from clew.cli.terminal.progress import Lines
    from clew.core.errors import UserError, shown
    from clew.data.streams.iterables import PREFIX
    from clew.recipes.listed import listed_settings
    from clew.runs.settings.keywords import settings_of
    from clew.studies.searching import search
    from clew.studies.space import space_assignments
    from clew.training.report import Silence

    for name, number in (("trials", trials), ("jobs", jobs)):
        if isinstance(number, bool) or not isinstance(number, int):
            raise UserError(f"{name} takes a whole number, not {shown(number)}; for example {name}=2")
    folder, path = (None if place is None else Path(place) for place in (out, code))
    if path is not None:
        load_code(path)
    settings = settings_of(assignments, keywords)
    axes = space_assignments(space)
    if data is not None:
        settings += listed_settings(recipe, settings, data)
    if jobs > 1 and any(setting.startswith(f"data.train={PREFIX}") for setting in settings):
        raise UserError(
            f"data= is a stream from Python, which the processes of {jobs} jobs cannot read; set jobs=1, or pass a list"
            " or a file"
        )
    return search(
        recipe,
        (*settings, *axes),
        trials=trials,
        jobs=jobs,
        out=folder,
        resume=resume,
        code=path,
        say=(lambda text: None) if quiet else say,
        reporting=lambda: nullcontext(Silence() if quiet else Lines()),
        worker=WORKER,
    )


def parse_int(option: str, text: str) -> int:
    from clew.core.errors import UserError, shown

    try:
        return int(text)
    except ValueError:
        raise UserError(f"{option} takes a whole number, not {shown(text)}; for example {option} 20") from None


def check_plot(plot: str | None) -> None:
    """Refuse a plot that could not be written, before the first trial."""
    from clew.core.errors import UserError
    from clew.drawing.figures import load_matplotlib
    from clew.drawing.views import FIGURES, WRITERS

    if plot is None:
        return
    path = Path(plot)
    if path.suffix.lower() not in (*WRITERS, *FIGURES):
        raise UserError(f"--plot ({plot}) must end in {', '.join([*WRITERS, *FIGURES[:-1]])} or {FIGURES[-1]}")
    if path.is_dir():
        raise UserError(f"--plot ({plot}) is a folder; give the name of a file")
    if not path.parent.is_dir():
        raise UserError(f"no such folder for --plot: {path.parent}; create it first")
    if path.suffix.lower() in FIGURES:
        load_matplotlib("use .svg, which needs no other package")


def check_no_search(options: argparse.Namespace) -> None:
    """Refuse the options of a search without --search."""
    from clew.core.errors import UserError
    from clew.studies import is_study
    from clew.studies.space import is_range

    for name in ("jobs", "plot"):
        if getattr(options, name) is not None:
            raise UserError(
                f"--{name} is only for a search; add --search N, such as --search 20, or leave --{name} out"
            )
    for setting in options.settings:
        field, _, text = setting.partition("=")
        if is_range(text):
            raise UserError(
                f"{field}={text} is a range, which needs a search; add --search N, such as --search 20, or give one"
                " value"
            )
    if options.out is not None and is_study(Path(options.out)):
        raise UserError(
            f"{options.out} is a search; resume it with --search N --resume, or choose another folder with --out"
        )


def resume_command(options: argparse.Namespace, folder: Path) -> str:
    """Return the command that resumes a search; its folder stores the settings."""
    jobs = ["--jobs", options.jobs] if options.jobs else []
    code = ["--code", options.code] if options.code else []
    return shlex.join(
        ["clew", "train", options.recipe, "--search", options.search, *jobs, "--out", str(folder), "--resume", *code]
    )


def show_study(folder: Path, *, as_json: bool = False, plot: str | None = None, code: str | None = None) -> int:
    """Print the current state of a search."""
    from clew.studies.result import build_result
    from clew.studies.study import open_study

    check_plot(plot)
    result = build_result(open_study(folder))
    if as_json:
        for trial in result.trials:
            facts = {**asdict(trial), "folder": str(trial.folder), "is_best": result.has_best and trial == result.best}
            print(json.dumps(facts, ensure_ascii=False))
    else:
        show(result, plot, code)
    return 0


def show(result: Any, plot: str | None, code: str | None) -> None:
    """Print the table on standard output, and the commands to try next on standard error."""
    from clew.cli.terminal.tables import show_table
    from clew.studies.result import BEST

    header, rows = result.table()
    number = len(result.space.axes) + 1
    show_table(header, rows, right=(0, *range(1, number), number, number + 1, number + 2), entries=True)
    if result.importances:
        shares = ", ".join(f"{field} {share:.0%}" for field, share in result.importances.items())
        say(f"importance of the settings for the best trials (PED-ANOVA): {shares}")
    if plot is not None:
        result.view().save(Path(plot))
        say(f"wrote the plot to {plot}")
    say(result.about)
    if result.has_best:
        file, best = result.folder / BEST, str(result.best.folder)
        code_option = f" {shlex.join(['--code', code])}" if code else ""
        commands = [
            result.command,
            *([shlex.join(["clew", "train", str(file)])] if file.is_file() else []),
            f"clew evaluate {shlex.quote(best)}",
        ]
        say("next:  " + "\n       ".join(f"{command}{code_option}" for command in commands))
