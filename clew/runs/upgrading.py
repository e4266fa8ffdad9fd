"""Configs of earlier formats, as they are written now. They are read so, and never rewritten for it."""

from collections.abc import Mapping
from typing import Any

from clew.tasks import TASKS

FORMAT = 2
"""Of what is written: configs and checkpoints."""
DATA_1 = frozenset(
    (
        *("corpus", "train", "valid", "test", "valid_fraction", "test_fraction", "format", "header", "source", "target", "text", "second"),
        *("label", "label_separator", "label_map", "phrases", "words", "tags", "question", "passage", "answer", "answer_start"),
        *("directions", "turns", "limit", "faults", "size", "shortest", "longest"),
    )
)
"""The fields that the section `data` of format 1 had, whatever the task."""


def upgraded(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of any format. Those of format 1 had fields for every kind of data: of these a run read only those that its task's section
    still has, so that the others are left out, whatever they hold."""
    data, task = settings.get("data"), settings.get("task")
    name = task.get("name", next(iter(TASKS))) if isinstance(task, Mapping) else None
    if not isinstance(data, Mapping) or not isinstance(name, str) or name not in TASKS:
        return dict(settings)
    left_out = DATA_1 - TASKS[name].section.model_fields.keys()
    return {**settings, "data": {field: value for field, value in data.items() if field not in left_out}}
