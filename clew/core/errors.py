"""The one exception a user's mistake raises, the sentences that several mistakes share, and how a sentence quotes what it was given."""

import re
import reprlib
import shlex
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

LONGEST_NAME, LONGEST_VALUE, LONGEST_LIST = 60, 150, 270
BREAKS = re.compile(r"\s*[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]\s*")


class UserError(ValueError):
    """A mistake of the caller's: one sentence with the rule, the values and the remedy. The command prints it alone and exits 2.

    Whatever was quoted in it, it is one line that any terminal can show: what cannot be printed stands there as its escape.
    """

    def __init__(self, sentence: str):
        super().__init__(printable(BREAKS.sub(" ", sentence)))


def printable(text: str) -> str:
    return text if text.isprintable() else "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shown(value: Any) -> str:
    """A value as a sentence quotes it: as Python writes it, cut where that is long."""
    text = SHORT.repr(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}..."


def named(name: Any) -> str:
    """A name as a sentence quotes it: 'lstm'."""
    text = name if isinstance(name, str) else shown(name)
    return f"'{text if len(text) <= LONGEST_NAME else text[:LONGEST_NAME] + '...'}'"


def command(*words: Any) -> str:
    """A command that a sentence suggests, quoted so that a shell takes each word as it is."""
    return shlex.join(map(str, words))


def shortened(text: str, most: int = 2 * LONGEST_NAME) -> str:
    """A text with its middle left out where it is long."""
    return text if len(text) <= most else f"{text[: most // 2]}...{text[-most // 2 :]}"


def counted(count: int, noun: str) -> str:
    """`1 example`, `2,000 examples`."""
    return f"{count:,} {noun if count == 1 else plural(noun)}"


def plural(noun: str) -> str:
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"


def did_you_mean(name: Any, known: Iterable[str]) -> str:
    """`; did you mean 'gru'?` where something known is near, else nothing."""
    near = get_close_matches(str(name)[:LONGEST_NAME], [str(k) for k in known], n=1, cutoff=0.5)
    return f"; did you mean '{near[0]}'?" if near else ";"


def unknown(kind: str, name: Any, known: Iterable[str]) -> UserError:
    """The error for a name that is in no table: what was said, what is near, what is known."""
    known = sorted(str(k) for k in known)
    return UserError(f"unknown {kind} {named(name)}{did_you_mean(name, known)} known: {few_of(known)}")


def few_of(names: Sequence[str], most: int = LONGEST_LIST) -> str:
    """The names, as many as a sentence can hold."""
    names = [shortened(name) for name in names]
    kept = len(names)
    while kept > 1 and len(", ".join(names[:kept])) > most:
        kept -= 1
    return ", ".join(names[:kept]) + (f" and {len(names) - kept} more" if kept < len(names) else "")


class _Short(reprlib.Repr):
    """A number that is not of this world is told by its size: Python refuses to write it out."""

    def repr_int(self, x: int, level: int) -> str:
        return repr(x) if x.bit_length() <= 100 else f"a number of about {x.bit_length() * 3 // 10:,} digits"


SHORT = _Short()
SHORT.maxlevel, SHORT.maxstring, SHORT.maxother, SHORT.maxdict, SHORT.maxlist = 3, LONGEST_NAME, LONGEST_NAME, 4, 6
