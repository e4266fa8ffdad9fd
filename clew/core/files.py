"""Atomic writes, safe reading of files from unknown sources, and the cache folder."""

import errno
import hashlib
import io
import json
import os
import re
import shutil
import stat
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from clew.core.errors import UserError

PARTIAL = ".partial"
"""The suffix of a file while it is being written."""


LARGEST_JSON = 2**26
"""The most bytes of a JSON file: parsed, it may take twenty times as much memory."""
LARGEST_WHOLE = 2**28
"""The most bytes of any other file that is read at once, such as a tokenizer."""


def open_file(path: Path) -> io.BufferedReader:
    """Open a regular file for reading. Pipes and devices are refused, and the call never blocks: reading one could
    wait, or continue, for ever."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket
            refuse_special(path, os.stat(path).st_mode)
        raise
    try:
        refuse_special(path, os.fstat(descriptor).st_mode)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def check_regular(path: Path) -> None:
    """Refuse anything but a regular file before a library opens it by name. A missing file is left to the library to
    report."""
    try:
        refuse_special(path, os.stat(path).st_mode)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from None


def refuse_special(path: Path, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        kinds = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
        raise UserError(
            f"{path} is {kinds.get(stat.S_IFMT(mode), 'a device')}, and must be a regular file; put the file itself in"
            " its place"
        )


def read_bytes(path: Path, most: int = LARGEST_WHOLE) -> bytes:
    """Read a whole file; refuse one of more than `most` bytes."""
    with open_file(path) as file:
        if (size := os.fstat(file.fileno()).st_size) > most:
            raise UserError(
                f"{path} has {size:,} bytes, and a file of its kind has {most:,} at most; it is damaged or the wrong"
                " file"
            )
        return file.read(most)


def read_text(path: Path, most: int = LARGEST_WHOLE) -> str:
    """Read a whole UTF-8 text file, with line ends converted to newlines."""
    return read_bytes(path, most).decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


def file_hash(path: Path) -> str:
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def json_hash(content: Any) -> str:
    """Return the SHA-256 of a JSON value, independent of its formatting."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def write_json(path: Path, content: Any) -> None:
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text file in UTF-8, atomically. Surrogates, as in file names that are not UTF-8, become escapes that JSON
    can read back."""
    with written_aside(path) as aside:
        aside.write_text(text, encoding="utf-8", errors="backslashreplace")


@contextmanager
def written_aside(path: Path) -> Iterator[Path]:
    """Yield a path to write to, in the folder of `path`; at the end the file is flushed and renamed, so that a reader
    sees the old file or the new one."""
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
    """Wait until the content of a file, or the entries of a folder, are on disk."""
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
        return json.loads(read_text(path, LARGEST_JSON))
    except UserError:
        raise
    except FileNotFoundError:
        raise UserError(f"{path} is missing") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from None
    except RecursionError:
        raise UserError(f"{path} is JSON that is nested too deeply to be read") from None
    except ValueError as error:  # not JSON, not UTF-8, or more digits than Python reads
        raise UserError(f"{path} is not JSON: {str(error).partition('; use sys.')[0]}") from None


def cache_folder() -> Path:
    """Return the folder of encoded texts: CLEW_CACHE, or the user's cache folder. Private, since it holds the user's
    texts."""
    if own := os.environ.get("CLEW_CACHE"):
        folder = Path(own)
    else:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "clew"
    with suppress(OSError):
        close_to_others(folder)
    return folder


def examples_folder() -> Path:
    """The folder in the cache for examples that are passed from Python."""
    return cache_folder().absolute() / "examples"


def close_to_others(folder: Path) -> None:
    """Remove the rights of other users from a cache made by an earlier version: from clew's entries, and from the
    folder itself unless it is shared or has other entries."""
    if os.name == "nt" or not folder.is_dir():
        return
    status = folder.stat()
    if status.st_uid != os.getuid() or not status.st_mode & 0o077:
        return
    entries = list(folder.iterdir())
    for entry in (path for path in entries if CACHED.fullmatch(path.name) and not path.is_symlink()):
        for path in [entry, *entry.rglob("*")]:
            if not path.is_symlink():
                path.chmod(0o700 if path.is_dir() else 0o600)
    if not status.st_mode & stat.S_ISVTX and all(is_own_entry(path.name) for path in entries):
        folder.chmod(0o700)


CACHED = re.compile(r"[0-9a-f]{16,}(\..*)?|measures|examples|streams|.*\.partial-rows")
"""Names of cache entries that hold texts."""


def is_own_entry(name: str) -> bool:
    return name == "compiled" or CACHED.fullmatch(name) is not None


def removed_with(owner: Any, folder: Path) -> "weakref.finalize[Any, Any]":
    """Remove a folder when its owner is garbage-collected or the program ends, but not in a forked process, which has
    a copy of the owner."""
    return weakref.finalize(owner, remove_in_process, os.getpid(), folder)


def remove_in_process(process: int, folder: Path) -> None:
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def private_folder(folder: Path) -> Path:
    """Create a folder and missing parents with access for this user only; return the folder."""
    for path in reversed([folder, *folder.parents]):
        if not path.exists():
            path.mkdir(mode=0o700, exist_ok=True)
    return folder


def create_private(path: Path, mode: str) -> Any:
    """Open a file for writing with access for this user only, in binary mode or as UTF-8 text."""
    return open(
        path, mode, encoding=None if "b" in mode else "utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)
    )


def write_private(path: Path, text: str) -> None:
    with create_private(path, "w") as file:
        file.write(text)
