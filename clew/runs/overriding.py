"""Settings laid over settings: a user's over a recipe's."""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

from clew.core.errors import UserError, shown
from clew.models import MODELS
from clew.runs.explaining import dotted
from clew.runs.values import parse_assignment
from clew.tasks import TASKS


def override(settings: Mapping[str, Any], assignments: Iterable[str]) -> dict[str, Any]:
    """Whole settings with `section.field=value` laid over them, left to right; a new `model.family` or `task.name` first
    resets its section."""
    return _lay(settings, [parse_assignment(assignment) for assignment in assignments])


def overlay(settings: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with nested settings (of a YAML file) laid over them, by the same rules as assignments."""
    return _lay(settings, paths(more))


def _lay(settings: Mapping[str, Any], more: list[tuple[list[str], Any]]) -> dict[str, Any]:
    """Settings with others laid over them, left to right."""
    result = deepcopy(dict(settings))
    for path, value in more:
        section, key = path[0], path[-1]
        if (section, key) in (("model", "family"), ("task", "name")) and len(path) == 2:
            table: Mapping[str, Any] = MODELS if section == "model" else TASKS
            here = result.get(section)
            if not isinstance(here, dict) or here.get(key) != value:
                known = isinstance(value, str) and value in table
                result[section] = table[value].config().model_dump(mode="json") if known else {key: value}
    for path, value in more:
        _set(result, path, value)
    return result


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


def paths(settings: Mapping[str, Any], sections: bool = True) -> list[tuple[list[str], Any]]:
    """Every field's path and value; a part with its options is one value, a section is not, though one has a field `name`."""
    found: list[tuple[list[str], Any]] = []
    for name, value in settings.items():
        if isinstance(value, dict) and value and (sections or "name" not in value):
            found += [([*name.split("."), *path], leaf) for path, leaf in paths(value, sections=False)]
        else:
            found.append((name.split("."), value))
    return found
