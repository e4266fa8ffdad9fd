"""Configs of earlier formats, as they are written now. They are read so, and never rewritten for it."""

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
"""The fields that the section `data` of format 1 had, whatever the task."""
MIXES_2 = {"sum": "sum_with_embedding"}
"""Mixes of format 2 that have another name now."""
TASK_2 = {"pairing": "released"}
"""Fields of tasks that came with format 3, and what a task did that has them before they were there."""
SLOPES_2 = {"slopes": "geometric"}
"""The slopes of ALiBi in format 2, which differ from the published ones where the number of heads is no power of
two."""
CONTENT_2 = {"learned": True}
"""What the content score did with its sharpness."""


def upgraded(settings: Mapping[str, Any], format: int = 1) -> dict[str, Any]:
    """Settings of any format, as this one has them."""
    if format < 2:
        settings = from_format_1(settings)
    return from_format_2(settings) if format < 3 else dict(settings)


def from_format_1(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of format 1 had fields for every kind of data: of these a run read only those that its task's section
    still has, so that the others are left out, whatever they hold."""
    data, name = settings.get("data"), task_name(settings)
    if not isinstance(data, Mapping) or name is None:
        return dict(settings)
    left_out = DATA_1 - TASKS[name].section.model_fields.keys()
    return {**settings, "data": {field: value for field, value in data.items() if field not in left_out}}


def from_format_2(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Names whose meaning has changed since, as they are called now, and what a run did before it could be chosen."""
    found, name = dict(settings), task_name(settings)
    embedding, model, task = (settings.get(section) for section in ("embedding", "model", "task"))
    if isinstance(embedding, Mapping) and isinstance(embedding.get("mix"), str):
        found["embedding"] = {**embedding, "mix": MIXES_2.get(embedding["mix"], embedding["mix"])}
    if isinstance(model, Mapping):
        found["model"] = with_options(model, "score", "content", CONTENT_2)
        if not all(is_power_of_two(heads) for heads in head_counts(model)):
            found["model"] = with_options(found["model"], "position", "alibi", SLOPES_2)
    if isinstance(task, Mapping) and name is not None:
        fields = TASKS[name].config.model_fields
        found["task"] = {**{field: value for field, value in TASK_2.items() if field in fields}, **task}
    return found


def as_before(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What the same settings meant in format 2, which had no field of format 3."""
    task = settings.get("task")
    if isinstance(task, Mapping):
        settings = {**settings, "task": {field: value for field, value in task.items() if field not in TASK_2}}
    return from_format_2(settings)


def task_name(settings: Mapping[str, Any]) -> str | None:
    """The task of some settings, where it is one that is known here."""
    task = settings.get("task")
    name = task.get("name", next(iter(TASKS))) if isinstance(task, Mapping) else None
    return name if isinstance(name, str) and name in TASKS else None


def head_counts(part: Any) -> Iterator[int]:
    """Every number of heads that a section or a part of it names."""
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
    """A section in which, wherever it stands, the part of a name says these options, unless it says others."""
    if isinstance(section, list):
        return [with_options(inner, field, name, options) for inner in section]
    if not isinstance(section, Mapping):
        return section
    found = {key: with_options(inner, field, name, options) for key, inner in section.items()}
    part = found.get(field)
    if part == name:
        found[field] = {"name": name, **options}
    elif isinstance(part, Mapping) and part.get("name") == name:
        found[field] = {**options, **part}
    return found
