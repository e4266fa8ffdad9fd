"""What `clew train --search` does, and what `clew runs` shows of a search: a table of its trials, the best settings, a
picture."""

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
"""The command of a process that trains trials."""


def run_search(options: argparse.Namespace) -> int:
    from clew.cli.terminal.progress import report
    from clew.core.errors import UserError
    from clew.studies import is_study
    from clew.studies.searching import search
    from clew.studies.study import load_optuna
    from clew.training.signals import Interrupted

    if options.overwrite:
        raise UserError(
            "--overwrite replaces one run, and a search writes a folder of several; leave it out, or choose another"
            " folder with --out"
        )
    load_optuna()
    check_plot(options.plot)
    code = None if options.code is None else Path(options.code)
    try:
        found = search(
            options.recipe,
            options.settings,
            trials=whole("--search", options.search),
            jobs=whole("--jobs", options.jobs or "1"),
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
        raise Interrupted(stop.number, f"{stop}; go on with `{again(options, stop.folder)}`", stop.folder) from None
    show(found, options.plot, options.code)
    return 0 if found.has_best else 1


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
    """What `clew.search` does."""
    from contextlib import nullcontext

    from clew.cli.options.code import load_code
    from clew.cli.terminal.progress import Lines
    from clew.core.errors import UserError, shown
    from clew.recipes.listed import listed_settings
    from clew.runs.settings.keywords import settings_of
    from clew.studies.searching import search
    from clew.studies.space import words_of
    from clew.training.report import Silence

    for name, number in (("trials", trials), ("jobs", jobs)):
        if isinstance(number, bool) or not isinstance(number, int):
            raise UserError(f"{name} takes a whole number, not {shown(number)}; for example {name}=2")
    folder, path = (None if place is None else Path(place) for place in (out, code))
    if path is not None:
        load_code(path)
    try:
        settings = settings_of(assignments, keywords)
        varied = words_of(space)
        if data is not None:
            settings += listed_settings(recipe, settings, data)
        return search(
            recipe,
            (*settings, *varied),
            trials=trials,
            jobs=jobs,
            out=folder,
            resume=resume,
            code=path,
            say=(lambda text: None) if quiet else say,
            reporting=lambda: nullcontext(Silence() if quiet else Lines()),
            worker=WORKER,
        )
    except UserError as error:
        raise UserError(
            str(error).replace("such as --search 20", "such as trials=20").replace("--jobs", "jobs")
        ) from None


def whole(option: str, text: str) -> int:
    from clew.core.errors import UserError, shown

    try:
        return int(text)
    except ValueError:
        raise UserError(f"{option} takes a whole number, not {shown(text)}; for example {option} 20") from None


def check_plot(plot: str | None) -> None:
    """Refuses a picture that could not be written, before the first trial."""
    from clew.core.errors import UserError
    from clew.drawing.figures import load_matplotlib
    from clew.drawing.views import FIGURES, WRITERS

    if plot is None:
        return
    path = Path(plot)
    if path.suffix.lower() not in (*WRITERS, *FIGURES):
        raise UserError(f"--plot ({plot}) must end in {', '.join([*WRITERS, *FIGURES[:-1]])} or {FIGURES[-1]}")
    if not path.parent.is_dir():
        raise UserError(f"no such folder: {path.parent}, where --plot is to write; make it first")
    if path.suffix.lower() in FIGURES:
        load_matplotlib()


def check_no_search(options: argparse.Namespace) -> None:
    """Refuses what is of a search alone where none is asked for."""
    from clew.core.errors import UserError
    from clew.studies import is_study
    from clew.studies.space import is_range

    for name in ("jobs", "plot"):
        if getattr(options, name) is not None:
            raise UserError(f"--{name} is for a search; add --search N, such as --search 20, or leave --{name} out")
    for setting in options.settings:
        field, _, text = setting.partition("=")
        if is_range(text):
            raise UserError(
                f"{field}={text} is a range, which a search varies; add --search N, such as --search 20, or give one"
                " value"
            )
    if options.out is not None and is_study(Path(options.out)):
        raise UserError(
            f"{options.out} is a search; go on with it by --search N --resume, or choose another folder with --out"
        )


def again(options: argparse.Namespace, folder: Path) -> str:
    """The command that goes on with a search, whose folder has its settings."""
    jobs = ["--jobs", options.jobs] if options.jobs else []
    code = ["--code", options.code] if options.code else []
    return shlex.join(
        ["clew", "train", options.recipe, "--search", options.search, *jobs, "--out", str(folder), "--resume", *code]
    )


def show_study(folder: Path, *, as_json: bool = False, plot: str | None = None, code: str | None = None) -> int:
    """A search as it stands."""
    from clew.studies.result import result_of
    from clew.studies.study import open_study

    check_plot(plot)
    found = result_of(open_study(folder))
    if as_json:
        for trial in found.trials:
            facts = {**asdict(trial), "folder": str(trial.folder), "is_best": found.has_best and trial == found.best}
            print(json.dumps(facts, ensure_ascii=False))
    else:
        show(found, plot, code)
    return 0


def show(found: Any, plot: str | None, code: str | None) -> None:
    """The table on standard output; what can be done with it on standard error."""
    from clew.cli.terminal.tables import show_table
    from clew.studies.result import BEST

    header, rows = found.table()
    number = len(found.space.axes) + 1
    show_table(header, rows, right=(0, *range(1, number), number, number + 1, number + 2), entries=True)
    if found.importances:
        shares = ", ".join(f"{field} {share:.0%}" for field, share in found.importances.items())
        say(f"what sets the best trials apart (PED-ANOVA): {shares}")
    if plot is not None:
        found.view().save(Path(plot))
        say(f"the picture is in {plot}")
    say(found.about)
    if found.has_best:
        file, best = found.folder / BEST, str(found.best.folder)
        more = f" {shlex.join(['--code', code])}" if code else ""
        commands = [
            found.command,
            *([shlex.join(["clew", "train", str(file)])] if file.is_file() else []),
            f"clew evaluate {shlex.quote(best)}",
        ]
        say("next:  " + "\n       ".join(f"{command}{more}" for command in commands))
