"""Output for a person, in which control characters of files, names and texts are escaped.

A terminal obeys control characters: an escape code in a data file could colour, move or hide lines, and a direction
override could show a name backwards. `shown` replaces each such character by its JSON escape, so that JSON stays
valid and equal; newlines and tabs are kept. Standard error is always escaped. Standard output is escaped on a
terminal, and in a pipe too for verbs that report to a person (`data`, `runs`, `evaluate`, ...); for verbs whose
output is data (ANSWERS in `clew.cli.verbs`), a pipe or a file receives it unchanged.
"""

import json
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\udc80-\udc9f]")
"""Control characters except newline and tab, Unicode line separators, bidirectional embeddings, overrides and
isolates, and undecodable bytes of file names (as surrogates) that are control characters in Latin-1."""


def escape_controls(text: str) -> str:
    """Replace the control characters of a text by escapes: `\\u001b`."""
    return OBEYED.sub(lambda match: json.dumps(match[0])[1:-1], text)


class Screen:
    """A stream for a person: text is passed through `shown`. All else is delegated to the underlying stream."""

    def __init__(self, stream: Any):
        self.stream = stream

    def write(self, text: str) -> int:
        self.stream.write(escape_controls(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def behind(stream: Any) -> Any:
    """Return the underlying stream, for code that writes its own control codes, such as a progress bar, and therefore
    must escape texts itself."""
    return stream.stream if isinstance(stream, Screen) else stream


@contextmanager
def screens(*, exact: bool) -> Iterator[None]:
    """Escape standard output and standard error within this context; with `exact`, not standard output in a pipe or
    file."""
    before = sys.stdout, sys.stderr
    sys.stderr = Screen(sys.stderr)
    if not exact or sys.stdout.isatty():
        sys.stdout = Screen(sys.stdout)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
