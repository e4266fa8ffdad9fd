"""How results show themselves: `Translation('eine Katze', log_prob=-1.23)`. Short, on one line, and never an address in memory."""

from typing import Any

LONGEST_TEXT = 60
"""Characters of a text that are shown."""


def brief(value: object, text: str | None = None, /, **numbers: Any) -> str:
    """The class, the beginning of a text, and some values by name; those that are None are left out."""
    parts = [] if text is None else [repr(text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 3]}...")]
    parts += [
        f"{name}={number:.4g}" if isinstance(number, float) else f"{name}={number}"
        for name, number in numbers.items()
        if number is not None
    ]
    return f"{type(value).__name__}({', '.join(parts)})"
