"""A lock that allows one writer per run directory. It is an operating-system lock, released when its process ends; the
lock file names the process that holds it."""

import itertools
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from clew.core.errors import UserError
from clew.core.files import read_json
from clew.core.wording import argument

LOCK = "lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Within this context no other process may write the run in the folder. The lock file of a dead process is
    reused."""
    file = _open(folder / LOCK)
    try:
        file.seek(0)
        file.truncate()
        file.write(json.dumps({"pid": os.getpid(), "host": socket.gethostname()}))
        file.flush()
        yield
    finally:
        if os.name == "nt":  # Windows cannot delete an open file
            file.close()
        with suppress(OSError):  # a leftover file whose process has ended does not lock the run
            (folder / LOCK).unlink()
        with suppress(OSError):
            file.close()


def is_locked(folder: Path) -> bool:
    """Whether a living process is writing the run."""
    try:
        with (folder / LOCK).open("r+", encoding="utf-8") as file:
            return not _take(file)
    except OSError:
        return False


def _open(path: Path) -> Any:
    for attempt in itertools.count():
        file = path.open("a+", encoding="utf-8")
        if not _take(file):
            file.close()
            if attempt < 5:  # the holder may be a short check by `is_locked`
                time.sleep(0.02)
                continue
            raise UserError(
                f"{path.parent} is being written by {_holder(path)}; wait for it or stop it, or choose another folder"
                f" with {argument('out')}"
            )
        # The previous holder may have deleted the file after we opened it and before we locked it.
        try:
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        except FileNotFoundError:
            pass
        file.close()
    raise AssertionError


def _holder(path: Path) -> str:
    try:
        about = read_json(path)
        return f"process {int(about['pid'])} on {about['host']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


if os.name == "nt":
    import msvcrt

    def _take(file: Any) -> bool:
        try:
            file.seek(0x7FFFFFF)  # far beyond the text, so that others can still read it
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
            return True
        except OSError:
            return False

else:
    import fcntl

    def _take(file: Any) -> bool:
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            return False
