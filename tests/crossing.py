"""Two tables crossed: by default every member of either is met with one of the other, the rest of the products with `-m
slow`."""

from collections.abc import Iterable
from typing import Any

import pytest


def crossed(first: Iterable[Any], second: Iterable[Any]) -> list[Any]:
    """Parameters (one of the first, one of the second)."""
    rows, columns = list(first), list(second)
    return [
        pytest.param(one, other, marks=[] if row % len(columns) == column % max(len(rows), 1) else pytest.mark.slow)
        for row, one in enumerate(rows)
        for column, other in enumerate(columns)
    ]


def quickly(members: Iterable[Any], *chosen: Any) -> list[Any]:
    """All of a table, those that are not chosen with `-m slow`."""
    return [pytest.param(member, marks=[] if member in chosen else pytest.mark.slow) for member in members]
