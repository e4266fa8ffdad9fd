"""Checks of numbers from files."""

import math
from typing import Any, TypeGuard


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a JSON value is a finite number in the range of a float."""
    try:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # an integer, which may have thousands of digits in JSON
        return False
