"""Examples and texts from Python: they are kept as files among what clew caches, so that a run reads them again as any
other file."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

from clew.core.errors import UserError, shown
from clew.core.files import cache_folder, private_folder
from clew.data.caching.stores import HashedFile, keeping
from clew.data.formats.python_tables import rows_in_memory, rows_of_dicts
from clew.data.kinds.kind import Kind
from clew.data.notes import Notes
from clew.tasks.learnings.examples import Examples

Rows = Iterable[Any] | Mapping[str, Iterable[Any]]
"""Examples: tuples, dicts, a table of any library, texts."""
ROLES = (
    "text",
    "second",
    "label",
    "words",
    "tags",
    "heads",
    "source",
    "target",
    "question",
    "passage",
    "answer",
    "answer_start",
)
"""Columns that are what they are called, unless a setting says otherwise."""
NOTHING = object()


class Kept(NamedTuple):
    """A file with examples, the examples that were left out of it, the names of its columns, and those of them that are
    what they are called."""

    path: Path
    notes: Notes
    names: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


def keep_part(learning: Any, data: Any, examples: Any, part: str) -> Kept:
    """The file with a part's examples, written as the section `data` reads them."""
    return keep_rows(learning.kind if isinstance(learning, Examples) else None, data, examples, part, learning.reads)


def keep_rows(kind: Kind | None, data: Any, examples: Any, part: str, reads: str) -> Kept:
    """The same of a kind of examples; `reads` says what a task without one learns from."""
    if (field := getattr(data, "field", None)) is not None:  # of texts and documents
        return Kept(keep_texts(examples, part, field), Notes())
    rows_of = None if kind is None else kind.rows
    if kind is None or rows_of is None:
        raise UserError(
            "data= takes texts, labelled texts, tagged words, pairs and questions from memory, and this task learns"
            f" from {reads}; give a file of it, data=pathlib.Path(FILE)"
        )
    table, items = rows_in_memory(examples), examples
    if table is None:
        table, items = rows_of_dicts(each_of(examples, part))
    notes = Notes(faults=data.faults)
    rows = iter(rows_of(items, notes) if table is None else table)
    first = next(rows, None)
    if first is None:
        raise empty(part)
    columns = (
        tuple(first)
        if table is None
        else tuple(name for name in ROLES if name in first and name in kind.section.model_fields)
    )
    return Kept(keep(chain([first], rows)), notes, tuple(first), columns)


def file_named(data: Any, is_text: bool) -> list[Path] | None:
    """The files, where `data` is a path, or several; of examples a string is one too, while to a language model it is a
    text."""
    if isinstance(data, str) and not is_text:
        return [Path(data)]
    if isinstance(data, str) and is_file_name(data):
        raise UserError(
            f"{shown(data)} is a file; to read it give pathlib.Path({shown(data)}), since a string is the text itself"
        )
    paths = [data] if isinstance(data, Path) else data
    are_paths = isinstance(paths, (list, tuple)) and len(paths) > 0 and all(isinstance(path, Path) for path in paths)
    return list(paths) if are_paths else None


def is_file_name(text: str) -> bool:
    if len(text) > 1000 or "\n" in text:
        return False
    try:
        return Path(text).is_file()
    except (OSError, ValueError):
        return False


def keep_texts(data: Any, part: str, field: str) -> Path:
    """The file with a text, or with documents: of a table one column."""
    if isinstance(data, str):
        if not data.strip():
            raise empty(part)
        return keep_file([data], ".txt")
    table, items = rows_in_memory(data), data
    if table is None:
        table, items = rows_of_dicts(each_of(data, part))
    rows = [{field: text} for text in items] if table is None else list(table)
    wrong = next((number for number, row in enumerate(rows, start=1) if not isinstance(row.get(field), str)), None)
    if wrong is not None:
        value = shown(rows[wrong - 1].get(field, rows[wrong - 1]))
        raise UserError(
            f"data= is a text, a list of them, or a table with a column '{field}', and example {wrong} has {value}"
        )
    if not rows:
        raise empty(part)
    return keep([{field: row[field]} for row in rows])


def each_of(examples: Any, part: str) -> Iterator[Any]:
    """The examples one after the other; there is one at least."""
    if isinstance(examples, str) or not isinstance(examples, Iterable):
        raise UserError(
            f"data= takes a list of examples, or one for each part, and the part '{part}' is {shown(examples)}"
        )
    items = iter(examples.tolist() if isinstance(examples, np.ndarray) else examples)
    first = next(items, NOTHING)
    if first is NOTHING:
        raise empty(part)
    return chain([first], items)


def empty(part: str) -> UserError:
    return UserError(f"data= has an empty list for the part '{part}'; give a list with examples in it")


def keep(rows: Iterable[Mapping[str, Any]]) -> Path:
    """The file with these rows."""
    return keep_file((json.dumps(row, ensure_ascii=False) + "\n" for row in rows), ".jsonl")


def keep_file(lines: Iterable[str], ending: str) -> Path:
    """The file with these lines, named by what is in it. They are written as they come, so that none of them is
    held."""
    folder = cache_folder().absolute() / "examples"
    with keeping(folder):
        aside = private_folder(folder) / f"{uuid4().hex}.partial"
    try:
        with HashedFile(aside) as file:
            for line in lines:
                file.write(line.encode("utf-8", "backslashreplace"))
            path: Path = folder / f"{file.close()['sha256'][:16]}{ending}"
        with keeping(folder):
            if not path.exists():
                aside.rename(path)
    finally:
        with suppress(OSError):
            aside.unlink()
    return path
