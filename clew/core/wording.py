"""How a message names an argument or a call: as Python, the command line or JSON writes it.

A function that raises an error does not know who called it. It writes `argument("resume", True)`, and the entry point
of the process, such as the command, chooses the notation with `worded`.
"""

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def in_python(name: str, value: Any, option: str) -> str:
    return f"{name}={'...' if value is None else repr(value)}"


def on_command_line(name: str, value: Any, option: str) -> str:
    flag = f"--{option.replace('_', '-')}"
    return flag if value is None or value is True else f"{flag} {shlex.quote(str(value))}"


def in_json(name: str, value: Any, option: str) -> str:
    return name if value is None else f"{name}={value}"


Wording = Callable[[str, Any, str], str]
_wordings: list[Wording] = [in_python]
"""The last one applies, in all threads: workers raise errors for the caller of the process."""


@contextmanager
def worded(wording: Wording) -> Iterator[None]:
    """Name arguments in this notation within the context."""
    _wordings.append(wording)
    try:
        yield
    finally:
        _wordings.remove(wording)


def argument(name: str, value: Any = None, *, option: str | None = None) -> str:
    """Name an argument that the caller should pass: `out=...` or `resume=True` in Python, `--out` or `--resume` on the
    command line. `option` is the command line's name if it differs."""
    return _wordings[-1](name, value, option or name)


def argument_name(name: str, *, option: str | None = None) -> str:
    """Name an argument that the caller has passed: `n_best` in Python and JSON, `--n-best` on the command line."""
    return on_command_line(name, None, option or name) if is_command() else name


def call(python: str, command: str) -> str:
    """Name a call that the caller should make, in backquotes: `run.parse(...)` in Python, `clew parse` elsewhere. A
    server names the command too: its users start it from the command line."""
    return f"`{either(python, command)}`"


def either(python: str, command: str) -> str:
    """Return the words for a Python caller, or those for the command line and the server."""
    return python if _wordings[-1] is in_python else command


def is_command() -> bool:
    return _wordings[-1] is on_command_line
