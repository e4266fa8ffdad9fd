"""Facts that identify what a resumed run needs unchanged: its data, vocabularies and settings.

Only facts that both sides have are compared, never their wording, so that a new or removed fact does not refuse an old
checkpoint.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Known(NamedTuple):
    """Facts as JSON values, and the words for them in messages."""

    facts: Mapping[str, Any]
    words: str


def agree(before: Any, now: Any) -> bool:
    """Whether two facts are equal; mappings are compared by the keys that both have."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        return all(agree(value, now[name]) for name, value in before.items() if name in now)
    return bool(before == now)
