"""Examples from Python: they are kept as JSON lines among what clew caches, so that their run can be resumed and evaluated as any other."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from clew.core.errors import UserError, shown, unknown
from clew.core.files import cache_folder, create_private, private_folder, written_aside
from clew.data.example_splits import PARTS
from clew.recipes.running import config_of
from clew.tasks import TASKS
from clew.tasks.examples import Examples

Listed = Iterable[Any] | Mapping[str, Iterable[Any]]
"""Examples to train on; or those of each part: train, valid, test."""


def listed_settings(recipe: str, assignments: Sequence[str], data: Listed) -> list[str]:
    """The settings that train a recipe on these examples."""
    given = next((name for name in assignments if name.startswith(("data.corpus=", *(f"data.{part}=" for part in PARTS)))), None)
    if given is not None:
        raise UserError(f"examples are given by data=, and by {given} too; leave one of them out")
    learning = TASKS[config_of(recipe, assignments).task.name].learns
    rows_of = learning.kind.rows if isinstance(learning, Examples) else None
    if rows_of is None:
        raise UserError(
            f"data= is for labelled texts, tagged words, pairs and questions, and {recipe} learns from {learning.reads}; "
            "name a file of it with data.train=FILE"
        )
    parts = data if isinstance(data, Mapping) else {"train": data}
    for part in parts:
        if part not in PARTS:
            raise unknown("part of data", part, PARTS)
    if "train" not in parts:
        raise UserError("data= has no part 'train'; give examples to train on")
    rows = {part: list(rows_of(some_of(examples, part))) for part, examples in parts.items()}
    columns = {column: f"data.{column}={column}" for column in rows["train"][0]}
    return ["data.corpus=null", "data.format=jsonl", *columns.values(), *(f"data.{part}={keep(rows[part])}" for part in rows)]


def some_of(examples: Any, part: str) -> list[Any]:
    if isinstance(examples, str) or not isinstance(examples, Iterable):
        raise UserError(f"data= takes a list of examples, or one for each part, and the part '{part}' is {shown(examples)}")
    found = list(examples)
    if not found:
        raise UserError(f"data= has an empty list for the part '{part}'; give a list with examples in it")
    return found


def keep(rows: Sequence[Mapping[str, Any]]) -> Path:
    """The file with these rows, named by what is in it."""
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path = cache_folder().absolute() / "examples" / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.jsonl"
    if not path.exists():
        private_folder(path.parent)
        with written_aside(path) as aside, create_private(aside, "wb") as file:
            file.write(text.encode("utf-8", "backslashreplace"))
    return path
