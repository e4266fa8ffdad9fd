"""Numbers that come out of a file."""

import math
from typing import Any, TypeGuard


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a value from JSON is a finite number, and no larger than a float can be."""
    try:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # of a whole number, which JSON may write with thousands of digits
        return False
