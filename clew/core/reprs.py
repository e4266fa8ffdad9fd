"""Short texts about values: `Translation('eine Katze', log_prob=-1.23)`, and the first paragraph of a docstring."""

from typing import Any

LONGEST_TEXT = 60
"""Characters of a text that are shown."""


def first_paragraph(documented: object) -> str:
    """The first paragraph of a docstring on one line; empty without a docstring."""
    return " ".join((documented.__doc__ or "").strip().partition("\n\n")[0].split())


def brief(value: object, text: str | None = None, /, **numbers: Any) -> str:
    """The class, the beginning of a text, and some values by name; those that are None are left out."""
    parts = [] if text is None else [repr(text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 3]}...")]
    parts += [
        f"{name}={number:.4g}" if isinstance(number, float) else f"{name}={number}"
        for name, number in numbers.items()
        if number is not None
    ]
    return f"{type(value).__name__}({', '.join(parts)})"
