"""Files that are written whole or not at all, files of strangers, which are opened in one place, and the cache folder."""

import errno
import hashlib
import io
import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from clew.core.errors import UserError

PARTIAL = ".partial"
"""The suffix of a file while it is being written."""


LARGEST_JSON = 2**26
"""Bytes of a JSON file that is read at once: what Python makes of them may take twenty times as much."""
LARGEST_WHOLE = 2**28
"""Bytes of any other file that is read at once, such as a tokenizer."""


def open_file(path: Path) -> io.BufferedReader:
    """A file that someone else may have made, for reading. What is no regular file is refused, and never waited for: a pipe or a device in
    the place of a file would block for ever, or never end."""
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
    """Refuses what is no regular file before a library opens it by name; of what is missing that library tells."""
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
        raise UserError(f"{path} is {kinds.get(stat.S_IFMT(mode), 'a device')}, and should be a file; put the file itself in its place")


def read_bytes(path: Path, most: int = LARGEST_WHOLE) -> bytes:
    """All of a file; one of more than `most` bytes is refused."""
    with open_file(path) as file:
        if (size := os.fstat(file.fileno()).st_size) > most:
            raise UserError(f"{path} has {size:,} bytes, and a file of its kind has {most:,} at most; it is damaged, or another file")
        return file.read(most)


def read_text(path: Path, most: int = LARGEST_WHOLE) -> str:
    """All of a text file in UTF-8, its line ends as newlines."""
    return read_bytes(path, most).decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


def file_hash(path: Path) -> str:
    with open_file(path) as file:
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
        return json.loads(read_text(path, LARGEST_JSON))
    except UserError:
        raise
    except FileNotFoundError:
        raise UserError(f"{path} is missing") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from None
    except RecursionError:
        raise UserError(f"{path} is not JSON that can be read: it is nested too deep") from None
    except ValueError as error:  # no JSON, no UTF-8, or more digits than Python reads
        raise UserError(f"{path} is not JSON: {str(error).partition('; use sys.')[0]}") from None


def cache_folder() -> Path:
    """Where encoded texts are kept: CLEW_CACHE, or the user's own cache folder. Nobody else may read there: they are the user's texts."""
    if "CLEW_CACHE" in os.environ:
        folder = Path(os.environ["CLEW_CACHE"])
    else:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "clew"
    with suppress(OSError):
        close_to_others(folder)
    return folder


def close_to_others(folder: Path) -> None:
    """Takes the rights of others away from a cache that an earlier version made: all that is clew's in it, and the folder itself unless
    it is there for other things too."""
    if os.name == "nt" or not folder.is_dir():
        return
    found = folder.stat()
    if found.st_uid != os.getuid() or not found.st_mode & 0o077:
        return
    for entry in (path for path in folder.iterdir() if CACHED.fullmatch(path.name) and not path.is_symlink()):
        for path in [entry, *entry.rglob("*")]:
            if not path.is_symlink():
                path.chmod(0o700 if path.is_dir() else 0o600)
    if not found.st_mode & stat.S_ISVTX and folder.resolve() not in (Path.home(), Path("/")):
        folder.chmod(0o700)


CACHED = re.compile(r"[0-9a-f]{16,}(\..*)?|measures|examples")
"""Names of what is kept in the cache."""


def private_folder(folder: Path) -> Path:
    """The folder, made with those above it where it is not there, for this user alone."""
    for path in reversed([folder, *folder.parents]):
        if not path.exists():
            path.mkdir(mode=0o700, exist_ok=True)
    return folder


def create_private(path: Path, mode: str) -> Any:
    """A file to write, for this user alone: bytes, or text in UTF-8."""
    return open(path, mode, encoding=None if "b" in mode else "utf-8", opener=lambda name, flags: os.open(name, flags, 0o600))


def write_private(path: Path, text: str) -> None:
    with create_private(path, "w") as file:
        file.write(text)
