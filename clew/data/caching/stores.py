"""Packed rows in two files: `rows`, one after the other, and `starts`, where each begins. They are mapped, not loaded,
so that processes share them."""

import hashlib
import mmap
import os
import shutil
import socket
import sys
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self, overload
from uuid import uuid4

import numpy as np

from clew.core.errors import UserError
from clew.core.files import create_private, private_folder
from clew.data.caching.packing import Packer, Unpacker, class_named, name_of
from clew.data.caching.verified import Entry

ROWS, STARTS = "rows", "starts"
BLOCK = 2**14
"""Rows that are read one after the other before their pages are given back, and starts that are held before they are
written."""
ABANDONED = 2 * 24 * 3600
"""Seconds after which a folder that a process of another host never finished is removed: it was killed."""


class Store(Sequence[Any]):
    """Values that are unpacked when they are asked for. An iteration gives the pages back that it has read. `about` is
    what its writer said when it closed. Raises ValueError where a class of its values is not there any more."""

    def __init__(self, folder: Path, about: dict[str, Any]):
        classes = [class_named(name) for name in about["classes"]]
        if None in classes or about["byteorder"] != sys.byteorder:
            raise ValueError(f"{folder} was written by another program")
        self.folder, self.about = folder, about
        self.size: int = about["count"]
        self.unpacker = Unpacker([kind for kind in classes if kind is not None])
        self.starts = mapped(folder / STARTS, np.dtype(np.int64), self.size + 1)
        with (folder / ROWS).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            self.rows: Any = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
        self.temporary: weakref.finalize[Any, Any] | None = None
        """Removes the folder of a store that is not kept, when nobody holds it any more."""

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, row: int) -> Any: ...
    @overload
    def __getitem__(self, row: slice) -> list[Any]: ...
    def __getitem__(self, row: int | slice) -> Any:
        if isinstance(row, slice):
            return self.take(range(*row.indices(self.size)))
        return self.take([in_range(row, self.size)])[0]

    def take(self, rows: Sequence[int] | np.ndarray) -> list[Any]:
        """The values of these rows, none of them counted from the end."""
        edges = self.starts[np.asarray(rows, np.int64)[:, None] + np.arange(2)].tolist()
        unpack, packed = self.unpacker.unpack, self.rows
        return [unpack(packed[start:stop]) for start, stop in edges]

    def __iter__(self) -> Iterator[Any]:
        for start in range(0, self.size, BLOCK):
            yield from self[start : start + BLOCK]
            self.give_back()

    def close(self) -> None:
        """Ends the maps, so that the folder can be moved on every system."""
        if isinstance(self.rows, mmap.mmap):
            self.rows.close()
        self.starts = np.empty(0, np.int64)

    def give_back(self) -> None:
        """Lets go of the pages that were read. They stay in the system's cache of files."""
        if hasattr(mmap, "MADV_DONTNEED") and isinstance(self.rows, mmap.mmap):
            self.rows.madvise(mmap.MADV_DONTNEED)


class StoreWriter:
    """Writes values into a folder, within its context."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.packer = Packer()
        self.rows, self.starts = (HashedFile(private_folder(folder) / name) for name in (ROWS, STARTS))
        self.held = [0]
        self.count = self.size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for file in (self.rows, self.starts):
            file.__exit__()

    def add(self, value: Any) -> None:
        row = self.packer.pack(value)
        self.rows.write(row)
        self.size += len(row)
        self.held.append(self.size)
        self.count += 1
        if len(self.held) >= BLOCK:
            self.write_starts()

    def write_starts(self) -> None:
        self.starts.write(np.array(self.held, np.int64).tobytes())
        self.held = []

    def close(self) -> dict[str, Any]:
        """What an index says of the store, once all is on the disk."""
        self.write_starts()
        entries = [self.rows.close(), self.starts.close()]
        classes = [name_of(kind) for kind in self.packer.classes]
        return {"classes": classes, "byteorder": sys.byteorder, "count": self.count, "files": entries}


class HashedFile:
    """A new file in the cache for this user alone, hashed while it is written, and closed after its context if not
    before."""

    def __init__(self, path: Path):
        self.path, self.sha256 = path, hashlib.sha256()
        with keeping(path):
            self.file = create_private(path, "wb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(OSError):  # what is left to write is of a file that nobody keeps
            self.file.close()

    def write(self, content: bytes) -> None:
        self.sha256.update(content)
        with keeping(self.path):
            self.file.write(content)

    def close(self) -> Entry:
        with keeping(self.path):
            self.file.flush()
            os.fsync(self.file.fileno())
            self.file.close()
            found = self.path.stat()
        return {
            "file": self.path.name,
            "size": found.st_size,
            "sha256": self.sha256.hexdigest(),
            "changed": found.st_mtime_ns,
        }


def mapped(path: Path, dtype: np.dtype[Any], count: int) -> np.ndarray:
    """An array of a file, mapped."""
    found: np.ndarray = np.asarray(np.memmap(path, dtype, "r", shape=(count,))) if count else np.empty(0, dtype)
    return found


def in_range(row: Any, count: int) -> int:
    place = int(row)
    if not -count <= place < count:
        raise IndexError(f"row {place} of {count}")
    return place % count


def folder_aside(cache: Path) -> Path:
    """A new folder in the cache, for what is not finished yet; those that killed processes left are removed."""
    with keeping(cache):
        private_folder(cache)
        host = socket.gethostname()
        for left in cache.glob("*.partial-rows"):
            process, _, place = left.name.partition("@")
            is_ours = place.startswith(f"{host}@")
            with suppress(OSError):
                if not is_running(process) if is_ours else time.time() - left.stat().st_mtime > ABANDONED:
                    shutil.rmtree(left)
        return private_folder(cache / f"{os.getpid()}@{host}@{uuid4().hex}.partial-rows")


def is_running(process: str) -> bool:
    if not process.isdigit() or os.name == "nt":  # where a signal of 0 would end it
        return True
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


@contextmanager
def removed_after_errors(folder: Path) -> Iterator[None]:
    """Within this context an error, or an interruption, removes a folder that is not finished."""
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


@contextmanager
def keeping(path: Path) -> Iterator[None]:
    """Within this context what the system refuses is a sentence on the cache."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"the examples cannot be kept in {path}: {error.strerror or error}; make room there, allow writing to it,"
            " or name another folder in the environment variable CLEW_CACHE"
        ) from None
