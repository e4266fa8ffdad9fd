"""Look inside a run with an instrument: tokens, surprisal, attention, attribution, the beam's tree, ...

Without a name the instruments are listed, with a run's folder alone those that fit it; with a name alone its options
are described. Options are name=value; the text may be --text or the content of a --file, which of a run that reads
pictures or sounds is the picture or the sound itself. What is seen is printed as text, on a terminal in colour (not
where NO_COLOR is set), or with --out drawn: .html, .svg, .png, .pdf, or .json for all of its numbers.

  clew look
  clew look surprisal
  clew look surprisal runs/shakespeare-lstm --text 'To be, or not to be'
  clew look next runs/shakespeare-gpt text='ROMEO:' top=5
  clew look attention runs/shakespeare-gpt --text 'To be, or not to be' layer=2 head=1 --out attention.html
  clew look surprisal runs/shakespeare-lstm runs/shakespeare-gpt --file poem.txt --json
  clew look caption runs/scenes-captioner picture.png --out caption.svg
  clew look caption runs/scenes-paragraphs picture.png 'boxes=[[4,2,20,18],[24,8,44,28]]' --out paragraph.html
  clew look attribution runs/scenes-captioner picture.png place=3 --out attribution.html

Several runs are shown one after the other on one scale, or side by side by an instrument that compares them.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("instrument", metavar="NAME", nargs="?", help="an instrument's name; `clew look` alone lists them")
    add(
        "words",
        metavar="RUN | FILE | option=value",
        nargs="*",
        default=[],
        help="run directories, a file, and options of the instrument",
    )
    add("--text", metavar="TEXT", help="the text to read, as text=TEXT")
    add("--file", metavar="FILE", help="read the text of this file (- is standard input), or this picture or sound")
    add("--out", metavar="FILE", help="draw it here: .html, .svg, .png, .pdf, or .json")
    add("--json", action="store_true", help="the numbers as one JSON object")
    add("--device", default="auto", choices=["auto", "cpu", "cuda", "mps"], help="where the models run")


def run(options: argparse.Namespace) -> int:
    from clew.runs.folder.run_files import is_run

    if options.instrument is None:
        return list_instruments(options)
    if (
        is_alone(options)
        and not is_run(Path(options.instrument))
        and (known := instruments(options)).get(options.instrument) is not None
    ):
        return describe(options, known[options.instrument])
    return run_on(options)


def is_alone(options: argparse.Namespace) -> bool:
    """Whether the command names an instrument and nothing to look at."""
    return not options.words and options.text is None and options.file is None and options.out is None


def instruments(options: argparse.Namespace) -> dict[str, Any]:
    """What is said of each instrument: read from a list, so that no torch is loaded, unless a file of the user's may
    have added some."""
    from clew.cli.options.forms import all_instruments, read_instruments

    return read_instruments() if options.code is None else all_instruments()


def run_on(options: argparse.Namespace) -> int:
    from clew.core.errors import UserError, command
    from clew.instruments.looking import check_fits, find_instrument, look, read_assignments
    from clew.runs.directory import is_run

    if not options.words and is_run(Path(options.instrument)):
        return list_fitting(options)
    check_order(options.instrument)
    find_instrument(options.instrument)
    folders, assignments = parted(with_file(options))
    if not folders:
        name, words = options.instrument, options.words
        raise UserError(f"there is no run to look at; give one: {command('clew', 'look', name, 'RUN', *words)}")
    check_out(options.out)
    values = {**read_assignments(options.instrument, assignments)}
    check_texts(options, "text" in values)
    runs: list[Any] = []
    for folder in folders:
        check_meant(folder, runs)
        runs.append(load(options, folder))
    for one in runs:
        check_fits(one, options.instrument)
    if (text := given_text(options, runs)) is not None:
        values["text"] = text
    show(options, look(runs, options.instrument, values))
    return 0


def check_order(first: str) -> None:
    """The instrument comes first; a folder there, or what looks like one, is told so."""
    from clew.core.errors import UserError, command
    from clew.runs.directory import check_run, is_run

    if is_run(Path(first)):
        raise UserError(
            f"the instrument comes first, and then the run: {command('clew', 'look', 'NAME', first)}; "
            f"`{command('clew', 'look', first)}` lists those that fit it"
        )
    if "/" in first or os.path.isdir(first):
        check_run(Path(first))


def load(options: argparse.Namespace, folder: str) -> Any:
    from clew.runs.loaded import load_run

    return load_run(folder, device=options.device, code=None if options.code is None else Path(options.code))


def check_meant(word: str, runs: list[Any]) -> None:
    """Behind a run that reads files, what is no run was meant as a file, and is refused as one."""
    from clew.data.lines import check_file
    from clew.runs.directory import is_run
    from clew.tasks.offers import reads_files

    if not is_run(Path(word)) and any(reads_files(run.task) for run in runs):
        check_file(Path(word))


def check_reads(name: str) -> None:
    from clew.core.errors import UserError
    from clew.instruments.looking import find_instrument

    if "text" not in find_instrument(name).options.model_fields:
        raise UserError(f"{name} reads no text of yours; leave --text and --file out")


def parted(words: list[str]) -> tuple[list[str], list[str]]:
    """Folders, and options; a folder whose name has an equals sign is one when it is there."""
    is_option = [not os.path.isdir(word) and word.partition("=")[0].isidentifier() and "=" in word for word in words]
    return tuple(
        [word for word, option in zip(words, is_option, strict=True) if option is wanted] for wanted in (False, True)
    )  # type: ignore[return-value]


def with_file(options: argparse.Namespace) -> list[str]:
    """The words but for a file among them, which is as good as --file."""
    from clew.core.errors import UserError

    files = [word for word in options.words if os.path.isfile(word)]
    if len(files) > 1 or (files and options.file is not None):
        raise UserError(
            f"one file is looked at a time, and here are {', '.join([*files, *filter(None, [options.file])])}; give one"
            " of them"
        )
    if files:
        options.file = files[0]
    return [word for word in options.words if word not in files]


def check_texts(options: argparse.Namespace, has_text: bool) -> None:
    from clew.core.errors import UserError

    given = (options.text is not None) + (options.file is not None)
    if given + has_text > 1:
        raise UserError("text=, --text and --file exclude each other; give the text once")
    if given:
        check_reads(options.instrument)


def given_text(options: argparse.Namespace, runs: list[Any]) -> str | None:
    """The text, or the path of a file where that is what the runs read."""
    from clew.cli.options.lines import some_lines
    from clew.tasks.offers import reads_files

    if options.file is None or any(reads_files(run.task) for run in runs):
        return options.text if options.file is None else options.file
    return "\n".join(line for lines in some_lines(options.file) for line in lines)


def check_out(name: str | None) -> None:
    """Before anything is computed."""
    from clew.core.errors import UserError
    from clew.drawing.views import FIGURES, WRITERS

    if name is None:
        return
    if not Path(name).parent.is_dir():
        raise UserError(f"{Path(name).parent} is no folder, so that {Path(name).name} cannot be written there")
    if Path(name).suffix.lower() not in (*WRITERS, *FIGURES):
        raise UserError(
            f"--out draws by the ending of a name, {', '.join([*WRITERS, *FIGURES])}, and {Path(name).name} has none of"
            " these"
        )


def show(options: argparse.Namespace, view: Any) -> None:
    from clew.cli.terminal.paint import Painted, colours_of
    from clew.cli.terminal.progress import say
    from clew.cli.terminal.screen import behind
    from clew.cli.terminal.view_text import view_lines
    from clew.drawing.views import plain

    if options.out is not None:
        say(f"wrote {view.save(options.out)}")
    if options.json:
        facts = {"instrument": options.instrument, "title": view.title, **view.facts}
        print(json.dumps(plain(facts), ensure_ascii=False, allow_nan=False))
    elif options.out is None:
        screen = behind(sys.stdout)
        for line in view_lines(view, colours_of(screen)):
            print(line, file=screen if isinstance(line, Painted) else None)


def list_instruments(options: argparse.Namespace) -> int:
    from clew.cli.terminal.tables import show_table

    known = instruments(options)
    if options.json:
        for name, instrument in known.items():
            print(json.dumps({"name": name, "about": instrument["about"], "options": instrument["options"]}))
        return 0
    show_table(("instrument", "what it shows"), [(name, instrument["about"]) for name, instrument in known.items()])
    return 0


def list_fitting(options: argparse.Namespace) -> int:
    """The instruments for one run, and why others have nothing to see in it."""
    from clew.cli.terminal.tables import show_table
    from clew.instruments import INSTRUMENTS
    from clew.instruments.subjects.subject import subject_of

    one = load(options, options.instrument)
    subject = subject_of(one)
    rows = [(name, instrument.about, instrument.why_not(subject)) for name, instrument in INSTRUMENTS.items()]
    if options.json:
        for name, about, why in rows:
            print(json.dumps({"name": name, "about": about, "fits": why is None, "why_not": why}, ensure_ascii=False))
        return 0
    show_table(
        ("instrument", "what it shows"), [(name, about if why is None else f"- {why}") for name, about, why in rows]
    )
    return 0


def describe(options: argparse.Namespace, instrument: dict[str, Any]) -> int:
    """An instrument's options, with what each takes."""
    from clew.cli.terminal.tables import show_table

    name, about, schema = options.instrument, instrument["about"], instrument["options"]
    if options.json:
        print(json.dumps({"name": name, "about": about, "options": schema}))
        return 0
    print(f"{name}: {about}\nclew look {name} RUN{' [RUN ...]' if instrument['several'] else ''} [option=value ...]\n")
    rows = [
        (field, takes(about), default(about), about.get("description", ""))
        for field, about in schema["properties"].items()
    ]
    show_table(("option", "takes", "default", ""), rows)
    return 0


def takes(schema: dict[str, Any]) -> str:
    kinds = []
    for kind in schema.get("anyOf", [schema]):
        if "enum" in kind:
            kinds.append("|".join(map(str, kind["enum"])))
        elif kind.get("type") == "array" == kind.get("items", {}).get("type"):
            kinds.append("[[a,b,...],...]")
        elif kind.get("type") != "null":
            kinds.append(KINDS.get(kind.get("type"), "value"))
    return " or ".join(kinds)


def default(schema: dict[str, Any]) -> str:
    value = schema.get("default")
    return "" if value in (None, "", []) else str(value).lower() if isinstance(value, bool) else str(value)


KINDS = {"string": "text", "integer": "number", "number": "number", "boolean": "true|false", "array": "a,b,..."}
