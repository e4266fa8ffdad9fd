"""The exception for user mistakes, messages that several mistakes share, and how a message quotes values."""

import os
import re
import reprlib
import shlex
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from traceback import extract_tb
from typing import Any

LONGEST_NAME, LONGEST_VALUE, LONGEST_LIST = 60, 150, 270
BREAKS = re.compile(r"\s*[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]\s*")


class UserError(ValueError):
    """A mistake of the user: one sentence with the rule, the values and the remedy. The command prints it alone and
    exits with 2.

    The message is always one printable line: line breaks become spaces, and unprintable characters in quoted values
    become escapes.
    """

    is_of_user_code = False
    """Whether the user's own code raised it, such as a callback; its sentence and traceback are then kept as they
    are."""

    def __init__(self, sentence: str):
        super().__init__(printable(BREAKS.sub(" ", sentence)))


def printable(text: str) -> str:
    return (
        text
        if text.isprintable()
        else "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    )


def shown(value: Any) -> str:
    """Quote a value as its repr, truncated if long."""
    text = SHORT.repr(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}..."


def named(name: Any) -> str:
    """Quote a name: 'lstm'."""
    text = name if isinstance(name, str) else shown(name)
    return f"'{text if len(text) <= LONGEST_NAME else text[:LONGEST_NAME] + '...'}'"


def command(*words: Any) -> str:
    """Join words into a shell command, quoted where necessary."""
    return shlex.join(map(str, words))


def shortened(text: str, most: int = 2 * LONGEST_NAME) -> str:
    """Replace the middle of a long text by an ellipsis."""
    return text if len(text) <= most else f"{text[: most // 2]}...{text[-most // 2 :]}"


def counted(count: int, noun: str) -> str:
    """Format a count with its noun: `1 example`, `2,000 examples`."""
    return f"{count:,} {noun if count == 1 else plural(noun)}"


def plural(noun: str) -> str:
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"


LOOSE, STRICT = 0.5, 0.75
"""How similar a suggestion must be, from 0 to 1: STRICT for the words of a command, which are often meant differently
if they are not typing errors."""


def did_you_mean(name: Any, known: Iterable[str], similarity: float = LOOSE) -> str:
    """Return `; did you mean 'gru'?` if a known name is close, else `;`."""
    near = get_close_matches(str(name)[:LONGEST_NAME], [str(k) for k in known], n=1, cutoff=similarity)
    return f"; did you mean '{near[0]}'?" if near else ";"


def unknown(kind: str, name: Any, known: Iterable[str], similarity: float = LOOSE) -> UserError:
    """Return the error for an unknown name, with the closest and all known names."""
    known = sorted(str(k) for k in known)
    return UserError(f"unknown {kind} {named(name)}{did_you_mean(name, known, similarity)} known: {few_of(known)}")


def few_of(names: Sequence[str], most: int = LONGEST_LIST) -> str:
    """Join as many names as a message can hold, and count the rest."""
    names = [shortened(name) for name in names]
    kept = len(names)
    while kept > 1 and len(", ".join(names[:kept])) > most:
        kept -= 1
    return ", ".join(names[:kept]) + (f" and {len(names) - kept} more" if kept < len(names) else "")


def innermost_place(error: BaseException, is_own: Callable[[str], bool]) -> str:
    """Return `mine.py:22`, the innermost line of a traceback in one of the user's own files; empty if there is none."""
    frames = [frame for frame in extract_tb(error.__traceback__) if is_own(frame.filename)]
    return f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""


class _Short(reprlib.Repr):
    """Describes a huge integer by its number of digits, since Python refuses to print it."""

    def repr_int(self, x: int, level: int) -> str:
        return repr(x) if x.bit_length() <= 100 else f"a number of about {x.bit_length() * 3 // 10:,} digits"


SHORT = _Short()
SHORT.maxlevel, SHORT.maxstring, SHORT.maxother, SHORT.maxdict, SHORT.maxlist = 3, LONGEST_NAME, LONGEST_NAME, 4, 6
