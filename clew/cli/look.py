"""Look inside a run with an instrument: tokens, surprisal, attention, attribution, the beam's tree, ...

`clew look` lists the instruments, `clew look RUN` those that work on a run, and `clew look NAME` describes the options
of an instrument. Options are name=value. The text comes from --text or --file; for a run that reads pictures or sounds,
--file is the picture or the sound. The view is printed as text, in colour on a terminal (unless NO_COLOR is set), or
drawn with --out: .html, .svg, .png, .pdf, or .json for all numbers.

  clew look
  clew look surprisal
  clew look surprisal runs/shakespeare-lstm --text 'To be, or not to be'
  clew look next runs/shakespeare-gpt text='ROMEO:' top=5
  clew look attention runs/shakespeare-gpt --text 'To be, or not to be' layer=2 head=1 --out attention.html
  clew look surprisal runs/shakespeare-lstm runs/shakespeare-gpt --file poem.txt --json
  clew look caption runs/scenes-captioner picture.png --out caption.svg
  clew look caption runs/scenes-paragraphs picture.png 'boxes=[[4,2,20,18],[24,8,44,28]]' --out paragraph.html
  clew look attribution runs/scenes-captioner picture.png place=3 --out attribution.html

Several runs are shown one after the other on the same scale, or side by side if the instrument compares runs.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("instrument", metavar="NAME", nargs="?", help="an instrument; `clew look` alone lists them")
    add(
        "words",
        metavar="RUN | FILE | option=value",
        nargs="*",
        default=[],
        help="run directories, a file, and options of the instrument",
    )
    add("--text", metavar="TEXT", help="the text to read, the same as text=TEXT")
    add("--file", metavar="FILE", help="read the text from this file (- is standard input), or this picture or sound")
    add("--out", metavar="FILE", help="write the view to FILE.html, .svg, .png, .pdf or .json")
    add("--json", action="store_true", help="print the numbers as one JSON object")
    add("--device", default="auto", choices=["auto", "cpu", "cuda", "mps"], help="the device to run on")


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
    """Whether the command names an instrument only."""
    return not options.words and options.text is None and options.file is None and options.out is None


def instruments(options: argparse.Namespace) -> dict[str, Any]:
    """Return the description of each instrument: from a generated file, without loading torch, unless --code may add
    some."""
    from clew.cli.options.forms import all_instruments, read_instruments

    return read_instruments() if options.code is None else all_instruments()


def run_on(options: argparse.Namespace) -> int:
    from clew.core.errors import UserError, command
    from clew.instruments.looking import check_instrument, find_instrument, look, read_assignments
    from clew.runs.folder.run_files import is_run

    if not options.words and is_run(Path(options.instrument)):
        return list_fitting(options)
    check_order(options.instrument)
    find_instrument(options.instrument)
    folders, assignments = split_words(without_file(options))
    if not folders:
        name, words = options.instrument, options.words
        raise UserError(f"no run was given; name one: {command('clew', 'look', name, 'RUN', *words)}")
    check_out(options.out)
    values = {**read_assignments(options.instrument, assignments)}
    check_texts(options, "text" in values)
    runs: list[Any] = []
    for folder in folders:
        check_not_file(folder, runs)
        runs.append(load(options, folder))
    for each in runs:
        check_instrument(each, options.instrument)
    if (text := text_of(options, runs)) is not None:
        values["text"] = text
    show(options, look(runs, options.instrument, values))
    return 0


def check_order(first: str) -> None:
    """Refuse a run, or what looks like a path, in the place of the instrument."""
    from clew.core.errors import UserError, command
    from clew.runs.folder.run_files import check_run, is_run

    if is_run(Path(first)):
        raise UserError(
            f"the instrument comes before the run: {command('clew', 'look', 'NAME', first)}; "
            f"`{command('clew', 'look', first)}` lists those that work on it"
        )
    if "/" in first or os.path.isdir(first):
        check_run(Path(first))


def load(options: argparse.Namespace, folder: str) -> Any:
    from clew.runs.loaded import load_run

    return load_run(folder, device=options.device, code=None if options.code is None else Path(options.code))


def check_not_file(word: str, runs: list[Any]) -> None:
    """Report a missing file, rather than a missing run, after a run that reads files."""
    from clew.data.lines import check_file
    from clew.runs.folder.run_files import is_run
    from clew.tasks.offers import reads_files

    if not is_run(Path(word)) and any(reads_files(run.task) for run in runs):
        check_file(Path(word))


def check_reads(name: str) -> None:
    from clew.core.errors import UserError
    from clew.instruments.looking import find_instrument

    if "text" not in find_instrument(name).options.model_fields:
        raise UserError(f"the instrument {name} reads no text; leave --text and --file out")


def split_words(words: list[str]) -> tuple[list[str], list[str]]:
    """Split the arguments into folders and options; NAME=VALUE is a folder if it exists."""
    is_option = [not os.path.isdir(word) and word.partition("=")[0].isidentifier() and "=" in word for word in words]
    folders = [word for word, option in zip(words, is_option, strict=True) if not option]
    return folders, [word for word, option in zip(words, is_option, strict=True) if option]


def without_file(options: argparse.Namespace) -> list[str]:
    """Move a file among the arguments to --file, and return the other arguments."""
    from clew.core.errors import UserError

    files = [word for word in options.words if os.path.isfile(word)]
    if len(files) > 1 or (files and options.file is not None):
        raise UserError(
            f"only one file can be read, but there are {', '.join([*files, *filter(None, [options.file])])}; give one"
            " of them"
        )
    if files:
        options.file = files[0]
    return [word for word in options.words if word not in files]


def check_texts(options: argparse.Namespace, has_text: bool) -> None:
    from clew.core.errors import UserError

    count = (options.text is not None) + (options.file is not None)
    if count + has_text > 1:
        raise UserError("text=, --text and --file exclude each other; give the text once")
    if count:
        check_reads(options.instrument)


def text_of(options: argparse.Namespace, runs: list[Any]) -> str | None:
    """Return the text, or the path of --file if the runs read files. Of a table, a run that was trained on records
    reads the first one."""
    from clew.cli.options.lines import is_table_file, is_text_file, line_batches
    from clew.tasks import TASKS
    from clew.tasks.learnings.examples import Examples
    from clew.tasks.offers import reads_files

    if options.file is None or any(reads_files(run.task) for run in runs):
        return options.text if options.file is None else options.file
    data = runs[0].config.data
    reads_records = isinstance(TASKS[runs[0].config.task.name].learns, Examples)
    if is_table_file(options.file) and (reads_records or not is_text_file(options.file)):
        return first_record(options.file, data)
    return "\n".join(line for lines in line_batches(options.file, data) for line in lines)


def first_record(file: str, data: Any) -> str:
    """Return the text of a table's first record that is not empty."""
    from clew.cli.options.lines import table_fields
    from clew.cli.terminal.progress import say
    from clew.core.errors import UserError
    from clew.tasks.use import TextRow

    try:
        records = next(table_fields(file, TextRow, data, {}))
    except UserError as error:
        if "--text" not in str(error):
            raise
        raise UserError(f"{file}: there is no column of this run's texts; give a text with --text TEXT") from None
    for number, fields in records:
        if fields["text"].strip():
            say(f"{file}: this is the text of record {number}; --text TEXT gives another")
            return str(fields["text"])
    raise UserError(f"{file}: the first records have empty texts; give a text with --text TEXT")


def check_out(name: str | None) -> None:
    """Check --out before anything is computed."""
    from clew.core.errors import UserError
    from clew.drawing.views import FIGURES, WRITERS

    if name is None:
        return
    if not Path(name).parent.is_dir():
        raise UserError(f"no such folder for --out: {Path(name).parent}; create it first")
    if Path(name).suffix.lower() not in (*WRITERS, *FIGURES):
        raise UserError(f"--out must end in {', '.join([*WRITERS, *FIGURES])}, not {Path(name).name}")


def show(options: argparse.Namespace, view: Any) -> None:
    from clew.cli.terminal.paint import Painted, colours_of
    from clew.cli.terminal.progress import say
    from clew.cli.terminal.screen import behind
    from clew.cli.terminal.view_text import view_lines
    from clew.drawing.views import json_ready

    if options.out is not None:
        say(f"wrote {view.save(options.out)}")
    if options.json:
        facts = {"instrument": options.instrument, "title": view.title, **view.facts}
        print(json.dumps(json_ready(facts), ensure_ascii=False, allow_nan=False))
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
    """List the instruments that work on a run, and for the others the reason why not."""
    from clew.cli.terminal.tables import show_table
    from clew.instruments import INSTRUMENTS
    from clew.instruments.subjects.subject import subject_of

    subject = subject_of(load(options, options.instrument))
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
    """Print the options of an instrument."""
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
