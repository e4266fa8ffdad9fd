"""Write files for tests, and get the message with which reading them fails."""

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
    """A temporary file, for one case drawn by hypothesis."""
    with tempfile.TemporaryDirectory() as folder:
        yield write(Path(folder) / name, content)


def refusal(call: Callable[[], Any]) -> str:
    """The message of the UserError that the call raises."""
    with pytest.raises(UserError) as caught:
        result = call()
        if isinstance(result, Iterator):
            list(result)
    return str(caught.value)
