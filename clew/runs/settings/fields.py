"""The fields of a config by full name: compare two configs, or print one as commented YAML."""

from typing import Any

import yaml

from clew.core.config import Section, field_names, warmup_steps
from clew.core.reprs import first_paragraph
from clew.runs.config import Config
from clew.runs.settings.field_paths import field_paths

SCHEDULE, STEPS = "training.schedule", "training.steps"


def fields_of(config: Config) -> dict[str, Any]:
    """Return every field's value by its full name; a part with its options is one value."""
    return {".".join(path): value for path, value in field_paths(config.model_dump(mode="json"))}


def changed_fields(first: Config, second: Config) -> dict[str, tuple[Any, Any]]:
    """Return the fields in which two configs differ with their values in both, None for a config without the field.
    Steps are ignored if the second config derives them from epochs."""
    a, b = fields_of(first), fields_of(second)
    changes = {name: (a.get(name), b.get(name)) for name in sorted({*a, *b}) if a.get(name) != b.get(name)}
    if SCHEDULE in changes and is_same_schedule(changes[SCHEDULE], first.training.steps, second.training.steps):
        del changes[SCHEDULE]
    if second.training.epochs is not None:
        changes.pop(STEPS, None)
    return changes


def is_same_schedule(schedules: tuple[Any, Any], first_steps: int, second_steps: int) -> bool:
    """Whether two schedules are the same, even if one states its warm-up as a share and the other as that share of its
    own number of steps."""
    one, other = schedules
    if is_share(one) == is_share(other):
        return bool(one == other)
    steps = second_steps if is_share(one) else first_steps
    return bool(in_steps(one, steps) == in_steps(other, steps))


def is_share(schedule: Any) -> bool:
    """Whether a schedule states its warm-up as a share of the steps."""
    return isinstance(schedule, dict) and isinstance(schedule.get("warmup"), float)


def in_steps(schedule: Any, steps: int) -> Any:
    """Return the schedule with its warm-up as a number of steps."""
    return {**schedule, "warmup": warmup_steps(schedule["warmup"], steps)} if is_share(schedule) else schedule


def differences(first: Config, second: Config) -> list[str]:
    """Return the fields in which two configs differ, as `field: first -> second`."""
    return [f"{name}: {one!r} -> {other!r}" for name, (one, other) in changed_fields(first, second).items()]


def commented_yaml(config: Config) -> str:
    """Return the config as YAML, with the description of each field as a comment."""
    lines = []
    for name in Config.model_fields:
        value = getattr(config, name)
        if isinstance(value, Section):
            lines.append(f"{name}:  # {first_paragraph(type(value))}")
            fields, names = type(value).model_fields, field_names(type(value))
            lines += [
                _yaml_line(f"  {name}", getattr(value, field), fields[field].description)
                for name, field in names.items()
            ]
        else:
            lines.append(_yaml_line(name, value, Config.model_fields[name].description))
    return "\n".join(lines) + "\n"


def _yaml_line(name: str, value: Any, description: str | None) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=10**6).removesuffix("\n").removesuffix("...").strip()
    return f"{name}: {text}" + (f"  # {description}" if description else "")
