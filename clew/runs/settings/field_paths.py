"""The paths of the fields in nested settings."""

from collections.abc import Mapping
from typing import Any


def field_paths(settings: Mapping[str, Any], sections: bool = True) -> list[tuple[list[str], Any]]:
    """Return every field's path and value. A part with its options ({"name": ...}) is one value; a top-level section is
    not, even if it has a field `name`."""
    fields: list[tuple[list[str], Any]] = []
    for name, value in settings.items():
        if isinstance(value, dict) and value and (sections or "name" not in value):
            fields += [([*name.split("."), *path], leaf) for path, leaf in field_paths(value, sections=False)]
        else:
            fields.append((name.split("."), value))
    return fields
