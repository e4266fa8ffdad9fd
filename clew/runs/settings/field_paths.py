"""The paths of a config's fields, in settings as JSON has them."""

from collections.abc import Mapping
from typing import Any


def paths(settings: Mapping[str, Any], sections: bool = True) -> list[tuple[list[str], Any]]:
    """Every field's path and value; a part with its options is one value, a section is not, though one has a field
    `name`."""
    found: list[tuple[list[str], Any]] = []
    for name, value in settings.items():
        if isinstance(value, dict) and value and (sections or "name" not in value):
            found += [([*name.split("."), *path], leaf) for path, leaf in paths(value, sections=False)]
        else:
            found.append((name.split("."), value))
    return found
