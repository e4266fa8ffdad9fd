"""The command line of every verb that asks a run: reads rows from arguments, a file or standard input, and writes
answers as they come."""

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import chain, islice
from pathlib import Path
from typing import Any

from clew.cli.terminal.progress import say

LOCAL = {"folder", "texts", "file", "format", "out", "device", "precision", "code", "debug", "run", "verb", "columns"}
"""Arguments that are not options of a use."""


def run(options: argparse.Namespace) -> int:
    """Run a named form: `clew VERB RUN [TEXT ...]`."""
    folders, options.texts = split_runs(options) if options.together else ([options.folder], options.texts)
    return ask(options, load_runs(options, folders))


def load_runs(options: argparse.Namespace, folders: Sequence[str]) -> list[Any]:
    from clew.runs.loaded import load_run

    code = None if options.code is None else Path(options.code)
    return [load_run(folder, device=options.device, code=code, precision=options.precision) for folder in folders]


def load_helper(options: argparse.Namespace, use: Any, use_options: Any) -> list[Any]:
    """Load the helper run that the options name, such as a draft; empty if there is none."""
    from clew.runs.asking import find_use

    folder = use.helper(use_options)
    runs = [] if folder is None else load_runs(options, [folder])
    for run in runs:
        find_use(run, options.verb)
    return runs


def ask(
    options: argparse.Namespace,
    runs: Sequence[Any],
    on_answer: Callable[[Any], None] = lambda answered: None,
    **extra: Any,
) -> int:
    """Write the answers of a run, or of several runs as an ensemble. `on_answer` is called with every answer; `extra`
    are options besides those of the command."""
    from clew.cli.options.texts import check_texts, errors_at
    from clew.core.errors import UserError
    from clew.runs.asking import check_together, find_use, read_options

    check_together(runs, options.verb)
    use, config = find_use(runs[0], options.verb), runs[0].config
    check_texts(options, row_values(options), names_files=use.names_files)
    if options.out and not Path(options.out).parent.is_dir():
        raise UserError(f"no such folder for --out: {Path(options.out).parent}; create it first")
    use_options = read_options(use, config, {**chosen_options(options, use, runs[0]), **extra})
    row_type = use.row_type(config.data, use_options)
    tasks = [run.task for run in (*runs, *load_helper(options, use, use_options))]
    format = options.format or next(iter(use.formats), "json")
    if use.check is not None:
        use.check(tasks[0], format, use_options)
    place, rows = read_rows(options, use, row_type, runs[0])
    is_single = len(options.texts) == 1
    answers_kept: list[Any] = []
    failures: list[str] = []

    def answered() -> Iterator[list[Any]]:
        for batch in answer_batches(use, tasks, rows, use_options, failures):
            for answer in batch:
                on_answer(answer)
            answers_kept.extend(batch if use.remarks is not None else ())
            yield batch

    with errors_at(place):
        pieces = None
        if (
            use.stream is not None
            and format in use.formats
            and (is_single or (use.begins and not options.texts and options.file is None))
        ):
            rows = iter(batches := list(rows))
            [[(number, row)]] = batches
            pieces = use.stream(tasks, row, use_options, number)
            text = next(value for _, value in row)
        parts = iter(
            find_format(use, format)(answered(), use_options, is_single) if pieces is None else streamed(text, pieces)
        )
        first = next(parts, "")  # before --out is opened, so that an error leaves the old file as it was
        with (
            Path(options.out).open("w", encoding="utf-8", newline="\n") if options.out else nullcontext(sys.stdout)
        ) as file:
            for part in chain([first], parts):
                file.write(part)
                file.flush()
    for line in use.remarks(tasks, answers_kept, use_options) if use.remarks is not None else ():
        say(line)
    return 2 if failures else 0


def streamed(text: str, pieces: Iterator[str]) -> Iterator[str]:
    """Yield a text as it is generated, after its prompt."""
    yield text
    yield from pieces
    yield "\n"


def find_format(use: Any, name: str) -> Any:
    """Return the function that formats answers: one of the use's formats, or JSON, which every use has."""
    from clew.core.errors import UserError

    if name in use.formats:
        return use.formats[name]
    if name != "json":
        raise UserError(
            f"--format {name} is not available for this run; its formats are {', '.join([*use.formats, 'json'])}"
        )

    def as_json(batches: Iterator[list[Any]], options: Any, is_single: bool) -> Iterator[str]:
        from clew.cli.options.lines import json_line

        for batch in batches:
            for number, row, answer in batch:
                yield "".join(json_line(one) + "\n" for one in use.objects(number, row, answer, options))

    return as_json


def answer_batches(
    use: Any, tasks: Sequence[Any], rows: Iterator[list[tuple[int, Any]]], options: Any, failures: list[str]
) -> Iterator[list[Any]]:
    """Yield batches of answers. Each row is repeated once per sample, and the repetitions are numbered consecutively.

    If rows name files, a file that cannot be read is skipped with a message, which is added to `failures`, unless it
    is the only one.
    """
    from clew.core.errors import UserError
    from clew.runs.asking import answer_rows
    from clew.tasks.use import Answered

    def answer(copies: list[tuple[int, Any]]) -> list[Any]:
        numbers, values = [number for number, _ in copies], [row for _, row in copies]
        return list(map(Answered, numbers, values, answer_rows(use, tasks, values, options, numbers)))

    def answer_readable(groups: list[list[tuple[int, Any]]]) -> Iterator[Any]:
        for copies in groups:
            try:
                yield from answer(copies)
            except UserError as error:
                if not names_file_of(error, copies[0][1]):
                    raise
                failures.append(str(error))
                say(f"clew: {error}")

    samples = getattr(options, "samples", 1)
    for batch in rows:
        groups = [[(samples * (number - 1) + copy, row) for copy in range(1, samples + 1)] for number, row in batch]
        try:
            answers = answer([copy for copies in groups for copy in copies])
        except UserError as error:
            if len(batch) == 1 or not use.names_files or not any(names_file_of(error, row) for _, row in batch):
                raise
            answers = list(answer_readable(groups))
        yield answers


def names_file_of(error: Exception, row: Any) -> bool:
    """Whether an error message contains the file name of a row."""
    from clew.core.errors import UserError

    file = next(value for _, value in row)
    return bool(file) and str(UserError(str(file))) in str(error)


def chosen_options(options: argparse.Namespace, use: Any, run: Any) -> dict[str, Any]:
    """Return the use's options from the command line; refuse those that this run's use lacks."""
    from clew.core.errors import UserError
    from clew.runs.settings.values import parse_value

    row, fields = use.row.model_fields, use.options.model_fields
    values = {name: value for name, value in vars(options).items() if name not in LOCAL and value is not None}
    for name in values:
        if name not in fields and name not in row and name in options.known:
            task, known = run.config.task.name, ", ".join(flag(each) for each in fields) or "none"
            raise UserError(
                f"{flag(name)} is not an option of {run.folder}, a run of the task {task}; its options: {known}"
            )
    chosen = {name: value for name, value in values.items() if name in fields}
    return {name: parse_value(value) if options.known.get(name) == "value" else value for name, value in chosen.items()}


def flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def row_values(options: argparse.Namespace) -> dict[str, str]:
    """Return the row fields given by options: columns of a table, or values for the fields after the first."""
    return {name: value for name in options.columns if (value := getattr(options, name, None)) is not None}


def read_rows(
    options: argparse.Namespace, use: Any, row_type: Any, run: Any
) -> tuple[str, Iterator[list[tuple[int, Any]]]]:
    """Return what precedes a row's number in messages, and an iterator over batches of numbered rows."""
    from clew.cli.options.lines import MOST, as_trained, in_options, is_table_file, is_text_file
    from clew.cli.options.texts import place_of

    texts, file, columns = options.texts, options.file, row_values(options)
    first = next(iter(row_type.model_fields))
    if texts:
        return place_of(texts, file), iter([argument_rows(texts, row_type, columns, run)])
    if file is not None and file != "-":
        if use.read_file is not None:
            with in_options():
                rows = use.read_file(as_trained(file, run.config.data)[0], run.config.data, columns)
            if rows is not None:
                place = place_of(texts, file, "sentence")
                return place, numbered_batches(convert_rows(rows, row_type, place), MOST)
        has_column = any(name not in options.shared for name in columns)
        if has_column or (is_table_file(file) and (use.tables or not is_text_file(file))):
            return place_of(texts, file, "record"), table_rows(file, row_type, columns, run)
        if is_table_file(file):
            say(f"{file}: read as lines of text; --{first} COLUMN reads a column of the table")
    elif use.begins and file is None:
        return place_of(["text"], file), iter([[(1, row_type(**{first: ""}))]])
    return place_of(texts, file), line_rows(file, use, row_type, columns, run)


def numbered_batches(rows: Iterator[Any], size: int) -> Iterator[list[tuple[int, Any]]]:
    from clew.cli.options.lines import in_options

    numbered = enumerate(rows, start=1)
    with in_options():
        while batch := list(islice(numbered, size)):
            yield batch


def convert_rows(rows: Iterator[Any], row_type: Any, place: str) -> Iterator[Any]:
    """Convert the rows of a file to this run's row type."""
    from clew.runs.settings.explaining import read_section

    for number, row in enumerate(rows, start=1):
        yield row if isinstance(row, row_type) else read_section(row_type, dict(row), f"{place} {number}")


def argument_rows(texts: Sequence[str], row_type: Any, fields: Mapping[str, str], run: Any) -> list[tuple[int, Any]]:
    """Return a row for each TEXT argument; options give its other fields."""
    from clew.core.errors import UserError
    from clew.runs.settings.explaining import read_section

    check_fields(row_type, fields, run)
    first, *rest = row_type.model_fields
    values = {name: field_value(row_type, name, fields[name]) for name in rest if name in fields}
    if values and len(texts) > 1 and not all(may_be_file(row_type, name) for name in values):
        raise UserError(
            f"{flag(next(iter(values)))} works with one TEXT, but {len(texts)} were given; give one, or a file of both"
        )
    rows = []
    for number, text in enumerate(texts, start=1):
        if len(cells := text.split("\t")) == len(required(row_type)) > 1 and not values:
            cells_by_name = dict(zip(required(row_type), cells, strict=True))
            rows.append((number, read_section(row_type, cells_by_name, f"text {number}")))
            continue
        for name in missing_fields(row_type, {first, *values}):
            need = " and ".join(required(row_type))
            raise UserError(
                f"text {number}: {run.folder} reads {need} together; give the other with {flag(name)}, or both in"
                " --file"
            )
        rows.append((number, read_section(row_type, {first: text, **values}, f"text {number}")))
    return rows


def check_fields(row_type: Any, fields: Mapping[str, str], run: Any) -> None:
    """Refuse a field that this run's rows lack."""
    from clew.core.errors import UserError

    for name in fields:
        if name not in row_type.model_fields:
            known = " and ".join(row_type.model_fields)
            raise UserError(
                f"{flag(name)} is for runs that read two texts together, but {run.folder} reads {known}; leave it out"
            )


def required(row_type: Any) -> list[str]:
    return [name for name, field in row_type.model_fields.items() if field.is_required()]


def missing_fields(row_type: Any, names: set[str]) -> list[str]:
    return [name for name in required(row_type) if name not in names]


def may_be_file(row_type: Any, name: str) -> bool:
    return bool((row_type.model_fields[name].json_schema_extra or {}).get("file"))


def field_value(row_type: Any, name: str, argument: str) -> str:
    """Return an argument as the value of a field: itself, or the text of the file that it names, if the field may be a
    file."""
    from clew.data.lines import check_file, ended_lines

    if not may_be_file(row_type, name):
        return argument
    if os.path.isfile(argument):
        return "".join(ended_lines(Path(argument)))
    if argument and not any(map(str.isspace, argument)):
        check_file(Path(argument))
    return argument


def line_rows(
    file: str | None, use: Any, row_type: Any, fields: Mapping[str, str], run: Any
) -> Iterator[list[tuple[int, Any]]]:
    """Yield a row for each line, as lines arrive. Fields of a row that no option gives are separated by tabs."""
    from clew.cli.options.texts import place_of, text_batches
    from clew.core.errors import UserError
    from clew.runs.settings.explaining import read_section

    first, *rest = columns_of(row_type)
    values = {name: field_value(row_type, name, fields[name]) for name in rest if name in fields}
    names = [first, *(name for name in rest if name not in values)]
    count, is_empty = 0, True
    for lines in text_batches((), file, data=run.config.data):
        rows = []
        for number, line in enumerate(lines, start=count + 1):
            if not line.strip() and use.skips_blank:
                continue
            most_splits = -1 if set(names) <= set(required(row_type)) else len(names) - 1
            cells = line.split("\t", most_splits) if len(names) > 1 and "\t" in line else [line]
            cells_by_name = dict(zip(names, cells, strict=False))
            missing = missing_fields(row_type, cells_by_name.keys() | values.keys())
            if line.strip() and (missing or len(cells) > len(names)):
                need = " and ".join(required(row_type))
                raise UserError(
                    f"{place_of((), file)} {number}: {run.folder} reads {need} together, in one line with a tab between"
                    f" them; found {len(cells)}"
                )
            blank = dict.fromkeys(required(row_type), "") if not line.strip() else {}
            rows.append((number, read_section(row_type, {**blank, **cells_by_name, **values}, f"text {number}")))
        if rows:
            yield rows
        is_empty &= not rows
        count += len(lines)
    if is_empty and use.begins:
        raise UserError(f"{'standard input' if file == '-' else file} has no line to continue")


def columns_of(row_type: Any) -> list[str]:
    """Return the fields of a row that may be columns of a table."""
    return [
        name for name, field in row_type.model_fields.items() if (field.json_schema_extra or {}).get("column", True)
    ]


def table_rows(file: str, row_type: Any, columns: Mapping[str, str], run: Any) -> Iterator[list[tuple[int, Any]]]:
    """Yield a row for each record of a table, from the columns named by options, or those that the run was trained
    on."""
    from clew.cli.options.lines import table_fields
    from clew.runs.settings.explaining import read_section

    check_fields(row_type, columns, run)
    for batch in table_fields(file, row_type, run.config.data, columns):
        yield [(number, read_section(row_type, fields, f"text {number}")) for number, fields in batch]


def split_runs(options: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Split the arguments into runs and texts. An argument that looks like the path of a run, but is none, is refused
    rather than read as a text."""
    from clew.runs.folder.run_files import CONFIG, check_run

    runs, texts = [options.folder], list[str]()
    for word in options.texts:
        is_run = os.path.isfile(os.path.join(word, CONFIG))
        if not is_run and not any(map(str.isspace, word)) and "/" in word and os.path.isdir(os.path.dirname(word)):
            check_run(Path(word))
        (runs if is_run else texts).append(word)
    return runs, texts
