"""Products of two tables: by default every member of each occurs once; the remaining products are marked slow."""

from collections.abc import Iterable
from typing import Any

import pytest


def crossed(first: Iterable[Any], second: Iterable[Any]) -> list[Any]:
    """Pairs of a member of the first and a member of the second."""
    rows, columns = list(first), list(second)
    return [
        pytest.param(one, other, marks=[] if row % len(columns) == column % max(len(rows), 1) else pytest.mark.slow)
        for row, one in enumerate(rows)
        for column, other in enumerate(columns)
    ]


def quickly(members: Iterable[Any], *chosen: Any) -> list[Any]:
    """All members of a table; those not chosen are marked slow."""
    return [pytest.param(member, marks=[] if member in chosen else pytest.mark.slow) for member in members]
