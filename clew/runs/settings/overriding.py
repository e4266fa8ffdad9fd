"""Settings laid over settings: a user's over a recipe's."""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

from clew.core.errors import UserError, shown
from clew.models import MODELS
from clew.runs.settings.explaining import dotted
from clew.runs.settings.field_paths import paths
from clew.runs.settings.values import parse_assignment
from clew.tasks import TASKS

KEPT = ("corpus", "train", "valid", "test", "valid_fraction", "test_fraction")
"""What any section `data` takes, of a file as of an assignment."""
DRAWN = ("batching", "vary_length", "documents", "bucket")
"""What the section `training` says of how one task's examples are drawn."""


def override(
    settings: Mapping[str, Any], assignments: Iterable[str], given: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Whole settings with `section.field=value` laid over them, left to right; a new `model.family` or `task.name`
    first resets its section, and `task=NAME` the section `data` and how examples are drawn too, but for what a file has
    `given`. Steps take the place of epochs that were laid before."""
    more = [parse_assignment(assignment) for assignment in assignments]
    values = {".".join(path): value for path, value in more}
    epochs = values.get("training.epochs")
    if "training.steps" in values:
        if epochs is not None:
            raise UserError(
                f"training.steps ({shown(values['training.steps'])}) and training.epochs ({shown(epochs)}) both say how"
                " long to train; give one of them"
            )
        more.append((["training", "epochs"], None))
    return _lay(settings, more, given or {})


def overlay(settings: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with nested settings (of a YAML file) laid over them, by the same rules as assignments."""
    return _lay(settings, paths(more))


def _lay(
    settings: Mapping[str, Any], more: list[tuple[list[str], Any]], given: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Settings with others laid over them, left to right."""
    result = deepcopy(dict(settings))
    fields = []
    for path, value in more:
        if path == ["task"] and isinstance(value, str):
            _reset(result, "task", "name", value, TASKS)
            result["data"] = _chosen((given or {}).get("data"), KEPT)
            if isinstance(training := result.get("training"), dict):
                kept = {name: training[name] for name in training if name not in DRAWN}
                result["training"] = {**kept, **_chosen((given or {}).get("training"), DRAWN)}
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


def _chosen(section: Any, names: Iterable[str]) -> dict[str, Any]:
    return {name: section[name] for name in names if name in section} if isinstance(section, Mapping) else {}


def _is_new(settings: Mapping[str, Any], section: str, key: str, name: Any) -> bool:
    here = settings.get(section)
    return not isinstance(here, dict) or here.get(key) != name


def _reset(settings: dict[str, Any], section: str, key: str, name: Any, table: Mapping[str, Any]) -> None:
    """A section with the defaults of what its field `key` now names."""
    known = isinstance(name, str) and name in table
    settings[section] = table[name].config().model_dump(mode="json") if known else {key: name}


def _fit_data(settings: dict[str, Any], task: Any) -> None:
    """Leaves of the section `data` what another task reads too."""
    data = settings.get("data")
    if isinstance(data, dict) and isinstance(task, str) and task in TASKS:
        settings["data"] = {name: value for name, value in data.items() if name in TASKS[task].section.model_fields}


def _set(settings: dict[str, Any], path: list[str], value: Any) -> None:
    """Sets a field; an option of a part given by name alone makes it a name with options."""
    here = settings
    for name in path[:-1]:
        inner = here.get(name)
        if isinstance(inner, str):
            inner = {"name": inner}
        elif inner is None:
            inner = {}
        elif not isinstance(inner, dict):
            raise UserError(f"{dotted(path)}: {dotted([name])} is {shown(inner)}, which has no fields")
        here[name] = inner
        here = inner
    here[path[-1]] = value
