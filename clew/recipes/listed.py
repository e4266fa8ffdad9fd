"""Examples from Python: they are kept as JSON lines among what clew caches, so that their run can be resumed and evaluated as any other."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from clew.core.errors import UserError, shown, unknown
from clew.core.files import cache_folder, create_private, private_folder, written_aside
from clew.data.example_splits import PARTS
from clew.data.python_tables import rows_in_memory, rows_of_dicts
from clew.recipes.running import config_of
from clew.tasks import TASKS
from clew.tasks.examples import Examples

Listed = Iterable[Any] | Mapping[str, Iterable[Any]]
"""Examples to train on; or those of each part: train, valid, test."""


OTHER_PARTS = {"validation": "valid", "dev": "valid"}
ROLES = ("text", "second", "label", "words", "tags", "heads", "source", "target", "question", "passage", "answer", "answer_start")
"""Columns that are what they are called, unless an assignment says otherwise."""


def listed_settings(recipe: str, assignments: Sequence[str], data: Listed) -> list[str]:
    """The settings that train a recipe on these examples."""
    given = next((name for name in assignments if name.startswith(("data.corpus=", *(f"data.{part}=" for part in PARTS)))), None)
    if given is not None:
        raise UserError(f"examples are given by data=, and by {given} too; leave one of them out")
    config = config_of(recipe, assignments)
    learning = TASKS[config.task.name].learns
    if (field := getattr(config.data, "field", None)) is not None:  # of texts and documents
        return [
            "data.corpus=null",
            *(f"data.{part}={keep_texts(texts, part, field)}" for part, texts in parts_of(data).items()),
        ]
    rows_of = learning.kind.rows if isinstance(learning, Examples) else None
    if rows_of is None:
        raise UserError(
            f"data= is for texts, labelled texts, tagged words, pairs and questions, and {recipe} learns from {learning.reads}; "
            "name a file of it with data.train=FILE"
        )
    rows: dict[str, list[Any]] = {}
    columns: dict[str, str] = {}
    for part, examples in parts_of(data).items():
        table, items = rows_in_memory(examples), examples
        if table is None:
            table, items = rows_of_dicts(some_of(examples, part))
        rows[part] = list(rows_of(some_of(items, part)) if table is None else table)
        if not rows[part]:
            raise empty(part)
        named = rows[part][0] if table is None else set(rows[part][0]) & set(ROLES) & set(learning.section.model_fields)
        columns |= {column: f"data.{column}={column}" for column in named}
    chosen = {name.partition("=")[0] for name in assignments}
    settings = [setting for column, setting in columns.items() if f"data.{column}" not in chosen]
    return ["data.corpus=null", "data.format=jsonl", *settings, *(f"data.{part}={keep(rows[part])}" for part in rows)]


def parts_of(data: Any) -> Mapping[str, Any]:
    """The data of each part: train, valid, test; of a DatasetDict the part `validation` is `valid`."""
    if not isinstance(data, Mapping) or is_of_columns(data):
        return {"train": data}
    parts = {OTHER_PARTS.get(str(part), str(part)): examples for part, examples in data.items()}
    for part in parts:
        if part not in PARTS:
            raise unknown("part of data", part, PARTS)
    if "train" not in parts:
        raise UserError("data= has no part 'train'; give examples to train on")
    return parts


def is_of_columns(data: Mapping[Any, Any]) -> bool:
    """Whether a dict has columns, and not parts, which hold tuples and tables."""
    firsts = [column[0] if isinstance(column, list) and column else None for column in data.values()]
    are_columns = all(isinstance(column, (list, np.ndarray)) for column in data.values())
    return are_columns and {*data}.isdisjoint((*PARTS, *OTHER_PARTS)) and not any(isinstance(first, (tuple, Mapping)) for first in firsts)


def keep_texts(data: Any, part: str, field: str) -> Path:
    """The file with a text, or with documents: of a table one column."""
    if isinstance(data, str):
        if not data.strip():
            raise empty(part)
        return keep_file(data, ".txt")
    table, items = rows_in_memory(data), data
    if table is None:
        table, items = rows_of_dicts(some_of(data, part))
    rows = [{field: text} for text in items] if table is None else list(table)
    wrong = next((number for number, row in enumerate(rows, start=1) if not isinstance(row.get(field), str)), None)
    if wrong is not None:
        found = shown(rows[wrong - 1].get(field, rows[wrong - 1]))
        raise UserError(f"data= is a text, a list of them, or a table with a column '{field}', and example {wrong} has {found}")
    if not rows:
        raise empty(part)
    return keep([{field: row[field]} for row in rows])


def some_of(examples: Any, part: str) -> list[Any]:
    if isinstance(examples, str) or not isinstance(examples, Iterable):
        raise UserError(f"data= takes a list of examples, or one for each part, and the part '{part}' is {shown(examples)}")
    found: list[Any] = examples.tolist() if isinstance(examples, np.ndarray) else list(examples)
    if not found:
        raise empty(part)
    return found


def empty(part: str) -> UserError:
    return UserError(f"data= has an empty list for the part '{part}'; give a list with examples in it")


def keep(rows: Sequence[Mapping[str, Any]]) -> Path:
    """The file with these rows."""
    return keep_file("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), ".jsonl")


def keep_file(text: str, ending: str) -> Path:
    """The file with this text, named by what is in it."""
    path = cache_folder().absolute() / "examples" / f"{hashlib.sha256(text.encode('utf-8', 'backslashreplace')).hexdigest()[:16]}{ending}"
    if not path.exists():
        private_folder(path.parent)
        with written_aside(path) as aside, create_private(aside, "wb") as file:
            file.write(text.encode("utf-8", "backslashreplace"))
    return path
