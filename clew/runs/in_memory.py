"""Examples and texts passed from Python. They are written to files in clew's cache, so that a run can read them again
like any other file."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

from clew.core.errors import UserError, shown
from clew.core.files import examples_folder, private_folder
from clew.data.caching.stores import HashedFile, keeping
from clew.data.formats.python_tables import rows_in_memory, rows_of_dicts
from clew.data.kinds.kind import Kind
from clew.data.notes import Notes
from clew.tasks.learnings.examples import Examples

Rows = Iterable[Any] | Mapping[str, Iterable[Any]]
"""Examples: texts, tuples, dicts, or a table of any dataframe library."""
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
"""Column names that are used for the role of the same name, unless a setting says otherwise."""
NO_EXAMPLE = object()


class Kept(NamedTuple):
    """A file of examples: its path, notes on the examples that were left out, the names of its columns, and those of
    them that are named after a role."""

    path: Path
    notes: Notes
    names: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


def keep_part(learning: Any, data: Any, examples: Any, part: str) -> Kept:
    """Write a part's examples to a file that the section `data` can read."""
    return keep_rows(learning.kind if isinstance(learning, Examples) else None, data, examples, part, learning.reads)


def keep_rows(kind: Kind | None, data: Any, examples: Any, part: str, reads: str) -> Kept:
    """Write examples of one kind to a file. `reads` names, for the error message, what a task without a kind learns
    from."""
    if (field := getattr(data, "field", None)) is not None:  # running text or documents
        return Kept(keep_texts(examples, part, field), Notes())
    rows_of = None if kind is None else kind.rows
    if kind is None or rows_of is None:
        raise UserError(
            "data= takes texts, labelled texts, tagged words, pairs and questions from memory, but this task learns"
            f" from {reads}; pass a file instead, data=pathlib.Path(FILE)"
        )
    table, items = rows_in_memory(examples), examples
    if table is None:
        table, items = rows_of_dicts(non_empty(examples, part))
    notes = Notes(faults=data.faults)
    rows = iter(rows_of(items, notes) if table is None else table)
    first = next(rows, None)
    if first is None:
        raise empty_part(part)
    columns = (
        tuple(first)
        if table is None
        else tuple(name for name in ROLES if name in first and name in kind.section.model_fields)
    )
    return Kept(keep(chain([first], rows)), notes, tuple(first), columns)


def file_named(data: Any, is_text: bool) -> list[Path] | None:
    """Return the files if `data` is a path or a list of paths, else None. A string is a path too, except for tasks that
    learn from running text (`is_text`), where it is the text itself."""
    if isinstance(data, str) and not is_text:
        return [Path(data)]
    if isinstance(data, str) and is_file_name(data):
        raise UserError(
            f"{shown(data)} is a file, but a string is taken as the text itself; to read the file, pass"
            f" pathlib.Path({shown(data)})"
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
    """Write a text, or documents, to a file; a table's documents are its column `field`."""
    if isinstance(data, str):
        if not data.strip():
            raise empty_part(part)
        return keep_file([data], ".txt")
    table, items = rows_in_memory(data), data
    if table is None:
        table, items = rows_of_dicts(non_empty(data, part))
    rows = [{field: text} for text in items] if table is None else list(table)
    wrong = next((number for number, row in enumerate(rows, start=1) if not isinstance(row.get(field), str)), None)
    if wrong is not None:
        value = shown(rows[wrong - 1].get(field, rows[wrong - 1]))
        raise UserError(
            f"data= takes a text, a list of texts, or a table with a column '{field}', but example {wrong} has {value}"
        )
    if not rows:
        raise empty_part(part)
    return keep([{field: row[field]} for row in rows])


def non_empty(examples: Any, part: str) -> Iterator[Any]:
    """Return an iterator over the examples; refuse a part without any."""
    if isinstance(examples, str) or not isinstance(examples, Iterable):
        raise UserError(
            f"data= takes a list of examples, or a list for each part, but the part '{part}' is {shown(examples)}"
        )
    items = iter(examples.tolist() if isinstance(examples, np.ndarray) else examples)
    first = next(items, NO_EXAMPLE)
    if first is NO_EXAMPLE:
        raise empty_part(part)
    return chain([first], items)


def empty_part(part: str) -> UserError:
    return UserError(f"data= has no examples for the part '{part}'; pass a list with at least one")


def keep(rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write rows to a JSON lines file in the cache and return its path."""
    return keep_file((json.dumps(row, ensure_ascii=False) + "\n" for row in rows), ".jsonl")


def keep_file(lines: Iterable[str], suffix: str) -> Path:
    """Write lines to a file in the cache that is named by the hash of its content, and return its path. Lines are
    written as they arrive, so that they are never all in memory."""
    folder = examples_folder()
    with keeping(folder):
        aside = private_folder(folder) / f"{uuid4().hex}.partial"
    try:
        with HashedFile(aside) as file:
            for line in lines:
                file.write(line.encode("utf-8", "backslashreplace"))
            path: Path = folder / f"{file.close()['sha256'][:16]}{suffix}"
        with keeping(folder):
            if not path.exists():
                aside.rename(path)
    finally:
        with suppress(OSError):
            aside.unlink()
    return path
