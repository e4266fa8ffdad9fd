"""What a person is shown: no character of a file, a name or a text reaches a terminal as a command to it.

A terminal obeys control characters: an escape code in a data file could colour, move or hide lines, and an override of
the direction of writing could show a name backwards. `shown` writes each such character as its escape, the way JSON
does, so that JSON stays the same JSON; newlines and tabs stay. Standard error is always for a person. Standard output
is on a terminal, and where a verb reports (`data`, `runs`, `evaluate`, ...) in a pipe too; where a verb's output is the
answer (ANSWERS in `clew.cli.verbs`), a pipe or a file gets it exactly.
"""

import json
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\udc80-\udc9f]")
"""Control characters but newline and tab, line ends of Unicode, embeddings, overrides and isolates of direction; bytes
of a file name that are control characters in no encoding or in Latin-1."""


def shown(text: str) -> str:
    """A text with its control characters written as escapes: `\\u001b`."""
    return OBEYED.sub(lambda found: json.dumps(found[0])[1:-1], text)


class Screen:
    """A stream for a person: what is written to it is `shown`. Whatever else a stream does, the one behind it does."""

    def __init__(self, stream: Any):
        self.stream = stream

    def write(self, text: str) -> int:
        self.stream.write(shown(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def behind(stream: Any) -> Any:
    """The stream itself, for what writes codes of its own, such as a progress bar; it makes all else `shown` itself."""
    return stream.stream if isinstance(stream, Screen) else stream


@contextmanager
def screens(*, exact: bool) -> Iterator[None]:
    """Standard output and standard error for a person; with `exact` what goes into a pipe or a file is left as it
    is."""
    before = sys.stdout, sys.stderr
    sys.stderr = Screen(sys.stderr)
    if not exact or sys.stdout.isatty():
        sys.stdout = Screen(sys.stdout)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
