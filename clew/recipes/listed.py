"""`clew.train(data=...)`: convert examples and texts from Python to the settings that train a recipe on them."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from clew.core.errors import UserError, shown, unknown
from clew.data.example_splits import PARTS
from clew.data.kinds.section import DataSection
from clew.data.streams.iterables import register_iterable
from clew.recipes.resolving import config_of
from clew.runs.in_memory import ROLES, Kept, file_named, keep_part
from clew.tasks import TASKS

Listed = str | Path | Iterable[Any] | Mapping[str, Any]
"""Examples to train on, or a file of them; or a dict of these by part: train, valid, test."""

OTHER_PARTS = {"validation": "valid", "dev": "valid"}


def listed_settings(
    recipe: str, assignments: Sequence[str], data: Listed, say: Callable[[str], None] = lambda text: None
) -> list[str]:
    """Return the settings that train a recipe on these examples. `say` reports examples that are left out."""
    assigned = next(
        (name for name in assignments if name.startswith(("data.corpus=", *(f"data.{part}=" for part in PARTS)))), None
    )
    if assigned is not None:
        raise UserError(f"examples are given by data= and by {assigned}; leave one of them out")
    config = config_of(recipe, assignments)
    learning = TASKS[config.task.name].learns
    parts = parts_of(data)
    is_text = getattr(config.data, "field", None) is not None
    settings, columns, kept = ["data.corpus=null"], dict[str, str](), list[str]()
    num_streamed = 0
    for part, examples in parts.items():
        if (files := file_named(examples, is_text)) is not None:
            names = [str(file) for file in files]
            settings.append(f"data.{part}={json.dumps(names[0] if len(names) == 1 else names)}")
            continue
        if is_text and part == "train" and is_streamed(config.data, examples):
            settings += [f"data.train={register_iterable(examples, part)}", "data.stream=true"]
            num_streamed = 1
            continue
        stored: Kept = keep_part(learning, config.data, examples, part)
        for sentence in stored.notes.report():
            say(f"{part}: {sentence}")
        columns |= {column: f"data.{column}={column}" for column in stored.columns}
        kept.append(f"data.{part}={stored.path}")
    if kept and len(kept) + num_streamed < len(parts):
        raise UserError(
            "data= has files for some parts and examples for others; give files for all of them, or examples for all"
        )
    chosen = {name.partition("=")[0] for name in assignments}
    if kept and not is_text:
        settings.append("data.format=null")  # the suffix implies it, and later files may have another
    return [*settings, *(setting for column, setting in columns.items() if f"data.{column}" not in chosen), *kept]


def is_streamed(section: DataSection, train: Any) -> bool:
    """Whether texts are read again in every epoch instead of being stored: if requested, or if they come from a
    function."""
    is_asked_for = getattr(section, "stream", None)
    is_function = callable(train) and not isinstance(train, Iterable)
    if is_asked_for is None and is_function:
        raise UserError(
            "data= is a function, which only language models read as a stream; pass a list, or the function's result"
        )
    return bool(is_asked_for) or is_function


def parts_of(data: Any) -> Mapping[str, Any]:
    """Return the data of each part: train, valid, test. The part `validation` of a DatasetDict is `valid`."""
    if not isinstance(data, Mapping) or is_of_columns(data):
        return {"train": data}
    names = {str(part): OTHER_PARTS.get(str(part), str(part)) for part in data}
    for part in PARTS:
        if len(same := [name for name, other in names.items() if other == part]) > 1:
            raise UserError(f"data= has {' and '.join(same)}, which are the same part; leave one of them out")
    parts = {names[str(part)]: examples for part, examples in data.items()}
    for part, examples in parts.items():
        if part in ROLES and isinstance(examples, str):
            raise UserError(
                f"data= takes examples, and data={{{part!r}: {shown(examples)}}} has none; name a column with"
                f" data.{part}={examples}"
            )
        if part not in PARTS:
            raise unknown("part of data", part, PARTS)
    if "train" not in parts:
        raise UserError("data= has no part 'train'; give examples to train on")
    return parts


def is_of_columns(data: Mapping[Any, Any]) -> bool:
    """Whether a dict holds columns rather than parts, which hold tuples or tables."""
    firsts = [column[0] if isinstance(column, list) and column else None for column in data.values()]
    are_columns = all(isinstance(column, (list, np.ndarray)) for column in data.values())
    return (
        are_columns
        and {*data}.isdisjoint((*PARTS, *OTHER_PARTS))
        and not any(isinstance(first, (tuple, Mapping)) for first in firsts)
    )
