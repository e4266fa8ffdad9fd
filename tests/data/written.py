"""Files written for a test, and what reading them says."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from clew.core.errors import UserError


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@contextmanager
def written(name: str, content: str | bytes) -> Iterator[Path]:
    """A file that is there for one drawn case."""
    with tempfile.TemporaryDirectory() as folder:
        yield write(Path(folder) / name, content)


def refusal(read: Callable[[], Any]) -> str:
    """The sentence with which reading is refused."""
    with pytest.raises(UserError) as caught:
        found = read()
        if isinstance(found, Iterator):
            list(found)
    return str(caught.value)
