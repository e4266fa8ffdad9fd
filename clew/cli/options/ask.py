"""Asking a run on the command line, whatever its task: rows of the command, of a file or of standard input, and answers
as they come."""

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import chain, islice
from pathlib import Path
from typing import Any

from clew.cli.terminal.progress import say

LOCAL = {"folder", "texts", "file", "format", "out", "device", "precision", "code", "debug", "run", "verb", "columns"}
"""Arguments that are no options of a use."""


def run(options: argparse.Namespace) -> int:
    """A named form: `clew VERB RUN [TEXT ...]`."""
    folders, options.texts = parted(options) if options.together else ([options.folder], options.texts)
    return ask(options, load_runs(options, folders))


def load_runs(options: argparse.Namespace, folders: Sequence[str]) -> list[Any]:
    from clew.runs.loaded import load_run

    code = None if options.code is None else Path(options.code)
    return [load_run(folder, device=options.device, code=code, precision=options.precision) for folder in folders]


def load_beside(options: argparse.Namespace, use: Any, asked: Any) -> list[Any]:
    """The run that helps with the answer, where one is named."""
    from clew.runs.asking import find_use

    folder = use.beside(asked)
    found = [] if folder is None else load_runs(options, [folder])
    for run in found:
        find_use(run, options.verb)
    return found


def ask(
    options: argparse.Namespace, runs: Sequence[Any], seen: Callable[[Any], None] = lambda answered: None, **more: Any
) -> int:
    """Answers by one run, or by several together. `seen` is shown every answer; `more` are options besides those of the
    command."""
    from clew.cli.options.texts import check_texts, placed
    from clew.core.errors import UserError
    from clew.runs.asking import check_together, find_use, read_options

    check_together(runs, options.verb)
    use, config = find_use(runs[0], options.verb), runs[0].config
    check_texts(options, columns_given(options), names_files=use.names_files)
    if options.out and not Path(options.out).parent.is_dir():
        raise UserError(f"no such folder: {Path(options.out).parent}, where --out is to write; make it first")
    with as_flags(use.options.model_fields):
        asked = read_options(use, config, {**options_given(options, use, runs[0]), **more})
        kind = use.row_type(config.data, asked)
        tasks = [one.task for one in (*runs, *load_beside(options, use, asked))]
    format = options.format or next(iter(use.formats), "json")
    if use.check is not None:
        use.check(tasks[0], format, asked)
    place, rows = given_rows(options, use, kind, runs[0])
    alone = len(options.texts) == 1
    kept: list[Any] = []
    refused: list[str] = []

    def answered() -> Iterator[list[Any]]:
        for some in answer_blocks(use, tasks, rows, asked, refused):
            for each in some:
                seen(each)
            kept.extend(some if use.remarks is not None else ())
            yield some

    with placed(place), as_flags(use.options.model_fields):
        pieces = None
        if (
            use.stream is not None
            and format in use.formats
            and (alone or (use.begins and not options.texts and options.file is None))
        ):
            rows = iter(blocks := list(rows))
            [[(number, row)]] = blocks
            pieces = use.stream(tasks, row, asked, number)
            text = next(value for _, value in row)
        answers = iter(use_format(use, format)(answered(), asked, alone) if pieces is None else streamed(text, pieces))
        first = next(answers, "")  # what is refused leaves the file that --out names as it was
        with (
            Path(options.out).open("w", encoding="utf-8", newline="\n") if options.out else nullcontext(sys.stdout)
        ) as file:
            for written in chain([first], answers):
                file.write(written)
                file.flush()
    for line in use.remarks(tasks, kept, asked) if use.remarks is not None else ():
        say(line)
    return 2 if refused else 0


def streamed(text: str, pieces: Iterator[str]) -> Iterator[str]:
    """A text as it is written, behind what it goes on from."""
    yield text
    yield from pieces
    yield "\n"


def use_format(use: Any, name: str) -> Any:
    """What writes answers: one of the use's formats, or JSON, which every use has."""
    from clew.core.errors import UserError

    if name in use.formats:
        return use.formats[name]
    if name != "json":
        raise UserError(f"--format {name} is not for this run; it has {', '.join([*use.formats, 'json'])}")

    def as_json(blocks: Iterator[list[Any]], options: Any, alone: bool) -> Iterator[str]:
        from clew.cli.options.lines import json_line

        for some in blocks:
            for number, row, answer in some:
                yield "".join(json_line(one) + "\n" for one in use.objects(number, row, answer, options))

    return as_json


def answer_blocks(
    use: Any, tasks: Sequence[Any], rows: Iterator[list[tuple[int, Any]]], options: Any, refused: list[str]
) -> Iterator[list[Any]]:
    """Answers to rows, some at a time; each row as often as samples of it are asked for, and numbered on.

    Of several rows that name files, one whose file cannot be read is passed over with its sentence, which `refused` is
    given.
    """
    from clew.core.errors import UserError
    from clew.runs.asking import answer_rows
    from clew.tasks.use import Answered

    def answer(copies: list[tuple[int, Any]]) -> list[Any]:
        numbers, given = [number for number, _ in copies], [row for _, row in copies]
        return list(map(Answered, numbers, given, answer_rows(use, tasks, given, options, numbers)))

    def answer_readable(rows: list[list[tuple[int, Any]]]) -> Iterator[Any]:
        for copies in rows:
            try:
                yield from answer(copies)
            except UserError as error:
                if not is_of(error, copies[0][1]):
                    raise
                refused.append(str(error))
                say(f"clew: {error}")

    samples = getattr(options, "samples", 1)
    for some in rows:
        copies = [[(samples * (number - 1) + copy, row) for copy in range(1, samples + 1)] for number, row in some]
        try:
            found = answer([each for row in copies for each in row])
        except UserError as error:
            if len(some) == 1 or not use.names_files or not any(is_of(error, row) for _, row in some):
                raise
            found = list(answer_readable(copies))
        yield found


def is_of(error: Exception, row: Any) -> bool:
    """Whether a sentence names the file of a row."""
    from clew.core.errors import UserError

    file = next(value for _, value in row)
    return bool(file) and str(UserError(str(file))) in str(error)


def options_given(options: argparse.Namespace, use: Any, run: Any) -> dict[str, Any]:
    """What was given on the command line; what this run's use has not is refused."""
    from clew.core.errors import UserError
    from clew.runs.settings.values import parse_value

    row, fields = use.row.model_fields, use.options.model_fields
    given = {name: value for name, value in vars(options).items() if name not in LOCAL and value is not None}
    for name in given:
        if name not in fields and name not in row and name in options.known:
            task, known = run.config.task.name, ", ".join(flag(each) for each in fields) or "none"
            raise UserError(f"{flag(name)} is not for {run.folder}, a run of the task {task}; its options: {known}")
    chosen = {name: value for name, value in given.items() if name in fields}
    return {name: parse_value(value) if options.known.get(name) == "value" else value for name, value in chosen.items()}


def flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


class as_flags:
    """Within this context a mistake in a field of options is said of its flag."""

    def __init__(self, names: Mapping[str, Any]):
        self.names = names

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        from clew.core.errors import UserError

        if isinstance(error, UserError) and self.names:
            words = "|".join(map(re.escape, self.names))
            places = rf"^({words})(?= )|(?<=; )({words})(?= has )|(?<=, and )({words})(?= is )|(?<=is for )({words})\b"
            sentence = re.sub(places, as_flag, str(error))
            if sentence != str(error):
                raise UserError(sentence) from None


def as_flag(found: re.Match[str]) -> str:
    return flag(found[0])


def columns_given(options: argparse.Namespace) -> dict[str, str]:
    """The fields of rows that the command names: columns of a table, or values of the fields behind the first."""
    return {name: value for name in options.columns if (value := getattr(options, name, None)) is not None}


def given_rows(
    options: argparse.Namespace, use: Any, kind: Any, run: Any
) -> tuple[str, Iterator[list[tuple[int, Any]]]]:
    """Numbered rows, some at a time, and what comes before a row's number where something is said of it."""
    from clew.cli.options.lines import MOST, in_options, is_table
    from clew.cli.options.texts import place_of
    from clew.core.errors import UserError

    texts, file, columns = options.texts, options.file, columns_given(options)
    first, *others = kind.model_fields
    if texts:
        return place_of(texts, file), iter([command_rows(texts, kind, columns, run)])
    if file is not None and file != "-":
        if use.read_file is not None:
            try:
                found = use.read_file(run.config.data.given(Path(file).expanduser()), run.config.data, columns)
            except UserError as error:
                raise UserError(in_options(str(error))) from None
            if found is not None:
                return place_of(texts, file, "sentence"), in_blocks(
                    checked(found, kind, place_of(texts, file, "sentence")), MOST
                )
        if (use.tables and is_table(file)) or any(name not in options.shared for name in columns):
            return place_of(texts, file, "record"), table_rows(file, kind, columns, run)
    elif use.begins and file is None:
        return place_of(["text"], file), iter([[(1, kind(**{first: ""}))]])
    return place_of(texts, file), line_rows(file, use, kind, columns, run)


def in_blocks(rows: Iterator[Any], size: int) -> Iterator[list[tuple[int, Any]]]:
    from clew.cli.options.lines import in_options
    from clew.core.errors import UserError

    numbered = enumerate(rows, start=1)
    try:
        while some := list(islice(numbered, size)):
            yield some
    except UserError as error:
        raise UserError(in_options(str(error))) from None


def checked(rows: Iterator[Any], kind: Any, place: str) -> Iterator[Any]:
    """Rows of a file as this run takes them."""
    from clew.runs.settings.explaining import read_section

    for number, row in enumerate(rows, start=1):
        yield row if isinstance(row, kind) else read_section(kind, dict(row), f"{place} {number}")


def command_rows(texts: Sequence[str], kind: Any, fields: Mapping[str, str], run: Any) -> list[tuple[int, Any]]:
    """A row for each TEXT; its other fields are those that the command gives."""
    from clew.core.errors import UserError
    from clew.runs.settings.explaining import read_section

    check_fields(kind, fields, run)
    first, *others = kind.model_fields
    values = {name: value_of(kind, name, fields[name]) for name in others if name in fields}
    if values and len(texts) > 1 and not all(may_be_file(kind, name) for name in values):
        raise UserError(
            f"{flag(next(iter(values)))} goes with one TEXT, and there are {len(texts)}; give one, or a file of both"
        )
    rows = []
    for number, text in enumerate(texts, start=1):
        if len(sides := text.split("\t")) == len(required(kind)) > 1 and not values:
            rows.append((number, read_section(kind, dict(zip(required(kind), sides, strict=True)), f"text {number}")))
            continue
        for name in lacking(kind, {first, *values}):
            need = " and ".join(required(kind))
            raise UserError(
                f"text {number}: {run.folder} takes {need} together; {flag(name)} has the other, or --file has both"
            )
        if unknown := next((name for name in fields if name not in kind.model_fields), None):
            raise UserError(
                f"{flag(unknown)} is for runs that take {unknown}, and {run.folder} takes"
                f" {' and '.join(kind.model_fields)} alone"
            )
        rows.append((number, read_section(kind, {first: text, **values}, f"text {number}")))
    return rows


def check_fields(kind: Any, fields: Mapping[str, str], run: Any) -> None:
    """Refuses a field that this run's rows have not."""
    from clew.core.errors import UserError

    for name in fields:
        if name not in kind.model_fields:
            known = " and ".join(kind.model_fields)
            raise UserError(f"{flag(name)} is for runs that read two texts together, and {run.folder} reads {known}")


def required(kind: Any) -> list[str]:
    return [name for name, field in kind.model_fields.items() if field.is_required()]


def lacking(kind: Any, names: set[str]) -> list[str]:
    return [name for name in required(kind) if name not in names]


def may_be_file(kind: Any, name: str) -> bool:
    return bool((kind.model_fields[name].json_schema_extra or {}).get("file"))


def value_of(kind: Any, name: str, given: str) -> str:
    """What a field is given on the command line: itself, or the text of the file that it names, where the field may be
    a file."""
    from clew.data.lines import check_file, ended_lines

    if not may_be_file(kind, name):
        return given
    if os.path.isfile(given):
        return "".join(ended_lines(Path(given)))
    if given and not any(map(str.isspace, given)):
        check_file(Path(given))
    return given


def line_rows(
    file: str | None, use: Any, kind: Any, fields: Mapping[str, str], run: Any
) -> Iterator[list[tuple[int, Any]]]:
    """A row for each line, as they arrive; where rows have several fields that the command does not give, tabs part
    them."""
    from clew.cli.options.texts import place_of, some_texts
    from clew.core.errors import UserError
    from clew.runs.settings.explaining import read_section

    first, *others = [
        name for name, field in kind.model_fields.items() if (field.json_schema_extra or {}).get("column", True)
    ]
    values = {name: value_of(kind, name, fields[name]) for name in others if name in fields}
    parts = [first, *(name for name in others if name not in values)]
    count, is_empty = 0, True
    for lines in some_texts((), file):
        rows = []
        for number, line in enumerate(lines, start=count + 1):
            if not line.strip() and use.skips_blank:
                continue
            most = -1 if set(parts) <= set(required(kind)) else len(parts) - 1
            sides = line.split("\t", most) if len(parts) > 1 and "\t" in line else [line]
            found = dict(zip(parts, sides, strict=False))
            if line.strip() and (lacking(kind, found.keys() | values.keys()) or len(sides) > len(parts)):
                need = " and ".join(required(kind))
                raise UserError(
                    f"{place_of((), file)} {number}: {run.folder} takes {need} together, and a line has both with a tab"
                    f" between; found {len(sides)}"
                )
            blank = dict.fromkeys(required(kind), "") if not line.strip() else {}
            rows.append((number, read_section(kind, {**blank, **found, **values}, f"text {number}")))
        if rows:
            yield rows
        is_empty &= not rows
        count += len(lines)
    if is_empty and use.begins:
        raise UserError(f"{'standard input' if file == '-' else file} has no line to go on from")


def table_rows(file: str, kind: Any, columns: Mapping[str, str], run: Any) -> Iterator[list[tuple[int, Any]]]:
    """A row for each record of a table, by the columns that the command names, or those that the run was trained
    with."""
    from clew.cli.options.lines import table_fields
    from clew.runs.settings.explaining import read_section

    first, *others = [
        name for name, field in kind.model_fields.items() if (field.json_schema_extra or {}).get("column", True)
    ]
    check_fields(kind, columns, run)
    data = run.config.data
    wanted = {first: columns.get(first) or getattr(data, first, None)}
    for name in others:
        column = columns.get(name) or getattr(data, name, None) or (name if name in required(kind) else None)
        wanted |= {} if column is None else {name: column}
    for some in table_fields(file, wanted):
        rows = []
        for number, cells in some:
            rows.append((number, read_section(kind, dict(zip(wanted, cells, strict=True)), f"text {number}")))
        yield rows


def parted(options: argparse.Namespace) -> tuple[list[str], list[str]]:
    """The runs and the texts among the words of the command. What looks like a run's path and is none is refused, not
    taken for a text."""
    from clew.runs.directory import CONFIG, check_run

    runs, texts = [options.folder], list[str]()
    for word in options.texts:
        is_one = os.path.isfile(os.path.join(word, CONFIG))
        if not is_one and not any(map(str.isspace, word)) and "/" in word and os.path.isdir(os.path.dirname(word)):
            check_run(Path(word))
        (runs if is_one else texts).append(word)
    return runs, texts
