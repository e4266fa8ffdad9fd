"""Upgrade configs of earlier formats when they are read; the files are never rewritten."""

from collections.abc import Iterator, Mapping
from typing import Any

from clew.tasks import TASKS

DATA_1 = frozenset(
    (
        *(
            "corpus",
            "train",
            "valid",
            "test",
            "valid_fraction",
            "test_fraction",
            "format",
            "header",
            "source",
            "target",
            "text",
            "second",
        ),
        *(
            "label",
            "label_separator",
            "label_map",
            "phrases",
            "words",
            "tags",
            "question",
            "passage",
            "answer",
            "answer_start",
        ),
        *("directions", "turns", "limit", "faults", "size", "shortest", "longest"),
    )
)
"""The fields of the section `data` in format 1, for every task."""
MIXES_2 = {"sum": "sum_with_embedding"}
"""Mixes of format 2 that have been renamed."""
TASK_2 = {"pairing": "released"}
"""Task fields that format 3 added, with the value that gives the behaviour of format 2."""
SLOPES_2 = {"slopes": "geometric"}
"""The ALiBi slopes of format 2, which differ from the published ones if the number of heads is not a power of two."""
CONTENT_2 = {"learned": True}
"""In format 2 the sharpness of the content score was always learned."""


def upgraded(settings: Mapping[str, Any], format: int = 1) -> dict[str, Any]:
    """Return settings of any format upgraded to the current format."""
    if format < 2:
        settings = from_format_1(settings)
    return from_format_2(settings) if format < 3 else dict(settings)


def from_format_1(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Upgrade settings of format 1, whose section `data` had the fields of every kind of data. A run read only the
    fields that its task's section still has, so that the others are dropped, regardless of their values."""
    data, name = settings.get("data"), task_name(settings)
    if not isinstance(data, Mapping) or name is None:
        return dict(settings)
    unused = DATA_1 - TASKS[name].section.model_fields.keys()
    return {**settings, "data": {field: value for field, value in data.items() if field not in unused}}


def from_format_2(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Upgrade settings of format 2: replace renamed values, and set options added since to the behaviour of that
    time."""
    upgraded_settings, name = dict(settings), task_name(settings)
    embedding, model, task = (settings.get(section) for section in ("embedding", "model", "task"))
    if isinstance(embedding, Mapping) and isinstance(embedding.get("mix"), str):
        upgraded_settings["embedding"] = {**embedding, "mix": MIXES_2.get(embedding["mix"], embedding["mix"])}
    if isinstance(model, Mapping):
        upgraded_settings["model"] = with_options(model, "score", "content", CONTENT_2)
        if not all(is_power_of_two(heads) for heads in head_counts(model)):
            upgraded_settings["model"] = with_options(upgraded_settings["model"], "position", "alibi", SLOPES_2)
    if isinstance(task, Mapping) and name is not None:
        fields = TASKS[name].config.model_fields
        upgraded_settings["task"] = {**{field: value for field, value in TASK_2.items() if field in fields}, **task}
    return upgraded_settings


def as_before(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the same settings meant in format 2, which had no field of format 3."""
    task = settings.get("task")
    if isinstance(task, Mapping):
        settings = {**settings, "task": {field: value for field, value in task.items() if field not in TASK_2}}
    return from_format_2(settings)


def task_name(settings: Mapping[str, Any]) -> str | None:
    """Return the name of the settings' task, or None if it is unknown."""
    task = settings.get("task")
    name = task.get("name", next(iter(TASKS))) if isinstance(task, Mapping) else None
    return name if isinstance(name, str) and name in TASKS else None


def head_counts(part: Any) -> Iterator[int]:
    """Yield every `num_heads` in a section and its parts."""
    if isinstance(part, Mapping):
        if isinstance(heads := part.get("num_heads"), int):
            yield heads
        for inner in part.values():
            yield from head_counts(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from head_counts(inner)


def is_power_of_two(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


def with_options(section: Any, field: str, name: str, options: Mapping[str, Any]) -> Any:
    """Add default options to every part called `name` in a field called `field`, at any depth of a section."""
    if isinstance(section, list):
        return [with_options(inner, field, name, options) for inner in section]
    if not isinstance(section, Mapping):
        return section
    result = {key: with_options(inner, field, name, options) for key, inner in section.items()}
    part = result.get(field)
    if part == name:
        result[field] = {"name": name, **options}
    elif isinstance(part, Mapping) and part.get("name") == name:
        result[field] = {**options, **part}
    return result
