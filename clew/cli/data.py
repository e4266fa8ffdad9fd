"""Inspect a data file: its format and columns, three examples, label counts, text lengths, duplicates, lines that
cannot be used, and the command that trains on it.

FILE has any of the formats in docs/guides/own-data.md, compressed or not: plain text, CSV, TSV, JSON lines or a JSON
array, Parquet, Arrow, a workbook, CoNLL columns, CoNLL-U or bracketed trees, or a format that your own code adds with
--code. Two files are parallel text, line by line. In a folder, all .txt and .jsonl files are read, subfolders
included, as when training a language model. Sounds and pictures that a table lists, or that lie in one folder per
class, are counted and measured.

  clew data tickets.csv
  clew data train.de train.en
  clew data corpus/
  clew data names.txt --format conll
  clew data pairs.tsv --no-header --json
"""

import argparse
import json
import shlex
from itertools import chain
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "files",
        metavar="FILE",
        nargs="+",
        help="a data file or a folder of texts; two files of parallel text, the source first",
    )
    add(
        "--format",
        metavar="NAME",
        help="csv, tsv, jsonl, json, table, xlsx, lines, conll, conllu or trees (default: detected)",
    )
    add(
        "--header",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="whether the first line of a table names its columns (default: detected)",
    )
    add(
        "--encoding",
        metavar="NAME",
        help="the text encoding: utf-8, cp1252, latin-1, utf-16, ... (default: UTF-8, or guessed)",
    )
    add("--delimiter", metavar="C", help="the separator of a table: , ; | or tab (default: detected)")
    add("--json", action="store_true", help="print one JSON object")


def run(options: argparse.Namespace) -> int:
    from dataclasses import asdict, replace

    from clew.core.errors import UserError
    from clew.data.descriptions import describe, report_lines
    from clew.data.files.given_files import given_file
    from clew.data.records import listed
    from clew.data.uses import guess_use, other_uses

    if len(options.files) > 2:
        raise UserError(f"give one file, or two of parallel text, not {len(options.files)}")
    if len(options.files) == 2 and (options.format not in (None, "parallel") or options.header is not None):
        raise UserError("two files are parallel text, line by line; --format and --header are for one file")
    if len(options.files) == 1 and options.format is None and (status := run_on_classes(options)) is not None:
        return status
    if len(options.files) == 1 and options.format is None and (status := run_on_vectors(options)) is not None:
        return status
    if len(options.files) == 2 and options.delimiter is not None:
        raise UserError("two files are parallel text, line by line; --delimiter is for one file")
    given_files = [given_file(file, options.encoding, options.delimiter) for file in options.files]
    description = describe(*given_files, format=options.format, header=options.header)
    files, use = files_named(description, options)
    use = use or guess_use(description)
    if use is None or not use.has_two_texts:
        description = replace(description, ratio=None)
    command = None if use is None or description.stopped is not None else training_command(use, options)
    other_commands = {
        why: [training_command(other, options) for other in uses] for why, uses in other_uses(description, use).items()
    }
    if options.json:
        named = {} if files is None else {"files": as_object(files)}
        facts = {
            **asdict(description),
            **named,
            "command": command,
            "other_commands": [*chain(*other_commands.values())],
        }
        print(json.dumps(facts, ensure_ascii=False))
        return 0
    for line in chain(report_lines(description), () if files is None else files.lines()):
        print(line)
    if command and use is not None and use.other_labels:
        print(f"other columns may be the label: {listed(use.other_labels)}")
    print(f"train on it with:\n  {command}" if command else why_not(description))
    for why, commands in other_commands.items():
        print("\n  ".join([f"or, {why}, with:", *commands]))
    return 0


def run_on_classes(options: argparse.Namespace) -> int | None:
    """Describe a folder with one subfolder per class of sounds or pictures; return None for any other."""
    from pathlib import Path

    from clew.data.described import Use

    folder = Path(options.files[0]).expanduser()
    if not folder.is_dir():
        return None
    from clew.data.files.named_files import class_lines, measure_class_folder

    content = measure_class_folder(folder)
    if content is None:
        return None
    what, classes, files = content
    command = training_command(Use(f"classify-{what}s", {}), options)
    if options.json:
        print(
            json.dumps(
                {"path": str(folder), "classes": classes, "files": as_object(files), "command": command},
                ensure_ascii=False,
            )
        )
        return 0
    for line in class_lines(folder, classes, files):
        print(line)
    print(f"train on it with:\n  {command}")
    return 0


def run_on_vectors(options: argparse.Namespace) -> int | None:
    """Describe a file of word vectors; return None for any other."""
    from clew.core.errors import command
    from clew.data.files.given_files import expand_home
    from clew.data.files.unpacking import kind_at
    from clew.data.formats import formats_named
    from clew.data.vectors import width_of_vectors

    path = expand_home(options.files[0])
    is_plain = (
        path.is_file() and path.stat().st_size > 0 and not formats_named(path) and kind_at(path) in (None, "gzip")
    )
    width = width_of_vectors(path) if is_plain else None
    if width is None:
        return None
    commands = [
        command("clew", "vectors", "neighbours", path, "WORD"),
        command("clew", "train", "tag", "data.train=FILE", f"embedding.vectors={path}"),
    ]
    if options.json:
        print(
            json.dumps(
                {
                    "path": str(path),
                    "format": "word vectors",
                    "width": width,
                    "command": commands[0],
                    "other_commands": commands[1:],
                }
            )
        )
        return 0
    print(f"{path}: word vectors of {width} numbers")
    print(
        f"look at them with:\n  {commands[0]}\nor initialise the word embeddings of a model with them:\n  {commands[1]}"
    )
    return 0


def as_object(files: Any) -> dict[str, Any]:
    from dataclasses import asdict

    sizes = [{"height": height, "width": width, "count": count} for (height, width), count in files.sizes.items()]
    return {**asdict(files), "sizes": sizes}


def files_named(description: Any, options: argparse.Namespace) -> tuple[Any, Any]:
    """Return the measurements of the sounds or pictures that a table lists, and their use; None if it lists none."""
    from clew.data.files.given_files import expand_home, given_file

    if (
        len(options.files) > 1
        or description.num_files is not None
        or not any("." in value for _, row in description.examples for value in row.values())
    ):
        return None, None
    from clew.data.files.named_files import (
        find_file_column,
        find_file_folder,
        measure_files,
        read_file_names,
        suggest_use,
    )

    file_column = find_file_column(description.columns, [fields for _, fields in description.examples])
    if file_column is None:
        return None, None
    column, what = file_column
    path = expand_home(given_file(options.files[0], options.encoding, options.delimiter))
    folder = find_file_folder(what, description.examples[0][1][column].strip(), path.parent)
    files = measure_files(what, read_file_names(path, description.format, options.header, column), folder)
    use = suggest_use(what, column, description.columns)
    if use is not None and folder != path.parent:
        use.settings["data.pictures"] = str(folder)
    return files, use


def training_command(use: Any, options: argparse.Namespace) -> str:
    """Return a command to paste into a shell."""
    from clew.recipes.listed_runs import read_resolved

    files = f"[{','.join(map(value, options.files))}]" if len(options.files) == 2 else value(options.files[0])
    settings = {
        "data.train": files,
        **{name: value(text) if name.startswith("data.") else text for name, text in use.settings.items()},
    }
    reading = {"format": options.format if len(options.files) == 1 else None}
    reading |= {name: getattr(options, name) for name in ("header", "encoding", "delimiter")}
    fields = read_resolved()[use.recipe]
    settings |= {
        f"data.{name}": str(option).lower()
        for name, option in reading.items()
        if option is not None and f"data.{name}" in fields
    }
    code = [] if options.code is None else ["--code", options.code]
    return shlex.join(["clew", "train", use.recipe, *(f"{name}={text}" for name, text in settings.items()), *code])


def value(text: str) -> str:
    """Return a text as the value of a setting, quoted if it would be read as another value or as several."""
    from clew.recipes.grid import split_values
    from clew.runs.settings.values import parse_value

    is_plain = (
        parse_value(text) in (text, as_number(text)) and split_values(text) == [text] and not set(text) & set("[]{}\"'")
    )
    return text if is_plain else json.dumps(text, ensure_ascii=False)


def as_number(text: str) -> int | None:
    """Return a column given by its number as an int, else None."""
    return int(text) if text.isascii() and text.isdigit() else None


def why_not(description: Any) -> str:
    """Return why no recipe can be trained on the data."""
    from clew.data.descriptions import shortened_value
    from clew.data.formats.json_files import NUMBERS_FOR_NAMES
    from clew.data.uses import lone_label, numbers_for_tags

    if description.stopped is not None:
        return "correct the error above, which stops reading, and then train on it"
    if (tags := numbers_for_tags(description)) is not None:
        return f"tags must be lists of strings, but {tags} is {NUMBERS_FOR_NAMES}"
    if (lone := lone_label(description)) is not None:
        column, label = lone
        return f"column {column} has only one value, {shortened_value(label)!r}; a label needs at least two"
    return (
        "no task fits these data: each text of a table needs a label, a translation or tags; a language model needs a"
        " plain text file"
    )
