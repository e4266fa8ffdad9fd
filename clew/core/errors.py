"""The one exception a user's mistake raises, and the sentences that several mistakes share."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(ValueError):
    """A mistake of the caller's: one sentence with the rule, the values and the remedy. The command prints it alone and exits 2."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'gru'?` where something known is near, else nothing."""
    near = get_close_matches(str(name), [str(k) for k in known], n=1, cutoff=0.5)
    return f"; did you mean '{near[0]}'?" if near else ";"


def unknown(kind: str, name: str, known: Iterable[str]) -> UserError:
    """The error for a name that is in no table: what was said, what is near, what is known."""
    known = sorted(str(k) for k in known)
    return UserError(f"unknown {kind} '{name}'{did_you_mean(name, known)} known: {', '.join(known)}")
