"""What tells one thing from another that a resumed run must find again: its data, its vocabularies, its settings.

Facts are compared, never sentences, and only those that both sides have: a fact that is told since, or told no more, refuses nothing.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Known(NamedTuple):
    """Facts as JSON has them, and what they are called in a sentence."""

    facts: Mapping[str, Any]
    words: str


def agree(before: Any, now: Any) -> bool:
    """Whether two facts are the same; of mappings, whether all that both have is."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        return all(agree(value, now[name]) for name, value in before.items() if name in now)
    return bool(before == now)
