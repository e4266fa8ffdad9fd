"""Files that are written whole or not at all, JSON that is read with a sentence for every fault, and the cache folder."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from clew.core.errors import UserError

PARTIAL = ".partial"
"""The suffix of a file while it is being written."""


def file_hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_json(path: Path, content: Any) -> None:
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """A file name with bytes that are no UTF-8 holds half characters, which are written as the escapes that JSON reads back."""
    with written_aside(path) as aside:
        aside.write_text(text, encoding="utf-8", errors="backslashreplace")


@contextmanager
def written_aside(path: Path) -> Iterator[Path]:
    """A file to write in the place of another: flushed and renamed in the end, so that a reader sees the old one or the new one."""
    aside = path.with_name(path.name + PARTIAL)
    try:
        yield aside
        flush(aside)
        aside.replace(path)
    except OSError:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        raise


def flush(path: Path) -> None:
    """Until what a file holds, or which files a folder has, is on the disk."""
    if path.is_dir():
        if os.name == "nt":
            return
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        return
    with path.open("r+b") as file:
        os.fsync(file.fileno())


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} is missing") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from None
    except RecursionError:
        raise UserError(f"{path} is not JSON that can be read: it is nested too deep") from None
    except ValueError as error:  # no JSON, no UTF-8, or more digits than Python reads
        raise UserError(f"{path} is not JSON: {str(error).partition('; use sys.')[0]}") from None


def cache_folder() -> Path:
    """Where encoded texts are kept: CLEW_CACHE, or the user's own cache folder."""
    if "CLEW_CACHE" in os.environ:
        return Path(os.environ["CLEW_CACHE"])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "clew"
