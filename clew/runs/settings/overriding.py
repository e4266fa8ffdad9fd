"""Apply a user's overrides to the settings of a recipe."""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

from clew.core.errors import UserError, shown
from clew.models import MODELS
from clew.runs.settings.explaining import dotted
from clew.runs.settings.field_paths import field_paths
from clew.runs.settings.values import parse_assignment
from clew.tasks import TASKS

COMMON_DATA_FIELDS = ("corpus", "train", "valid", "test", "valid_fraction", "test_fraction")
"""Fields that the section `data` of every task has."""
BATCHING_FIELDS = ("batching", "vary_length", "documents", "bucket")
"""Fields of the section `training` that depend on the task: they say how batches are made."""


def override(
    settings: Mapping[str, Any], assignments: Iterable[str], from_file: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return complete settings with `section.field=value` overrides applied, left to right. A new `model.family` or
    `task.name` first resets its section; `task=NAME` also resets the section `data` and the batching fields, except for
    values that the recipe's file sets (`from_file`). Steps replace the epochs of earlier settings."""
    overrides = [parse_assignment(assignment) for assignment in assignments]
    values = {".".join(path): value for path, value in overrides}
    epochs = values.get("training.epochs")
    if "training.steps" in values:
        if epochs is not None:
            raise UserError(
                f"training.steps ({shown(values['training.steps'])}) and training.epochs ({shown(epochs)}) both say how"
                " long to train; give one of them"
            )
        overrides.append((["training", "epochs"], None))
    return _apply(settings, overrides, from_file or {})


def overlay(settings: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with nested overrides (of a YAML file) applied, by the same rules as assignments."""
    return _apply(settings, field_paths(overrides))


def _apply(
    settings: Mapping[str, Any], overrides: list[tuple[list[str], Any]], from_file: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Apply overrides left to right."""
    result = deepcopy(dict(settings))
    fields = []
    for path, value in overrides:
        if path == ["task"] and isinstance(value, str):
            _reset(result, "task", "name", value, TASKS)
            result["data"] = _select((from_file or {}).get("data"), COMMON_DATA_FIELDS)
            if isinstance(training := result.get("training"), dict):
                kept = {name: training[name] for name in training if name not in BATCHING_FIELDS}
                result["training"] = {**kept, **_select((from_file or {}).get("training"), BATCHING_FIELDS)}
        elif path == ["task", "name"] and _is_new(result, "task", "name", value):
            _reset(result, "task", "name", value, TASKS)
            _fit_data(result, value)
        elif path == ["model", "family"] and _is_new(result, "model", "family", value):
            _reset(result, "model", "family", value, MODELS)
        elif len(path) == 1 and value == {}:
            continue
        if path != ["task"] or not isinstance(value, str):
            fields.append((path, value))
    for path, value in fields:
        _set(result, path, value)
    return result


def _select(section: Any, names: Iterable[str]) -> dict[str, Any]:
    return {name: section[name] for name in names if name in section} if isinstance(section, Mapping) else {}


def _is_new(settings: Mapping[str, Any], section: str, key: str, name: Any) -> bool:
    fields = settings.get(section)
    return not isinstance(fields, dict) or fields.get(key) != name


def _reset(settings: dict[str, Any], section: str, key: str, name: Any, table: Mapping[str, Any]) -> None:
    """Reset a section to the defaults of the table entry that its field `key` now names."""
    known = isinstance(name, str) and name in table
    settings[section] = table[name].config().model_dump(mode="json") if known else {key: name}


def _fit_data(settings: dict[str, Any], task: Any) -> None:
    """Drop the fields of the section `data` that the new task does not have."""
    data = settings.get("data")
    if isinstance(data, dict) and isinstance(task, str) and task in TASKS:
        settings["data"] = {name: value for name, value in data.items() if name in TASKS[task].section.model_fields}


def _set(settings: dict[str, Any], path: list[str], value: Any) -> None:
    """Set a field. If it is an option of a part that is given by name only, convert the part to a name with options."""
    fields = settings
    for name in path[:-1]:
        inner = fields.get(name)
        if isinstance(inner, str):
            inner = {"name": inner}
        elif inner is None:
            inner = {}
        elif not isinstance(inner, dict):
            raise UserError(f"{dotted(path)}: {dotted([name])} is {shown(inner)}, which has no fields")
        fields[name] = inner
        fields = inner
    fields[path[-1]] = value
