"""Stores of packed rows, in two files: `rows`, concatenated, and `starts`, the byte offset of each. They are
memory-mapped, so that processes share the memory."""

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
from clew.data.caching.packing import Packer, Unpacker, class_name, class_named
from clew.data.caching.verified import Entry

ROWS, STARTS = "rows", "starts"
BLOCK = 2**14
"""Rows that an iteration reads before it releases their pages, and starts that are buffered before they are written."""
ABANDONED = 2 * 24 * 3600
"""Seconds after which another host's unfinished folder is removed: its process must have been killed."""


class Store(Sequence[Any]):
    """A sequence of values that are unpacked on access. An iteration releases the pages that it has read.

    `about` is the description that `StoreWriter.close` returned. Raises ValueError if a class of the values no longer
    exists.
    """

    def __init__(self, folder: Path, about: dict[str, Any]):
        classes = [class_named(name) for name in about["classes"]]
        if None in classes or about["byteorder"] != sys.byteorder:
            raise ValueError(f"{folder} was written by another version of the program or on another kind of machine")
        self.folder, self.about = folder, about
        self.size: int = about["count"]
        self.unpacker = Unpacker([kind for kind in classes if kind is not None])
        self.starts = mapped(folder / STARTS, np.dtype(np.int64), self.size + 1)
        with (folder / ROWS).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            self.rows: Any = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
        self.temporary: weakref.finalize[Any, Any] | None = None
        """Removes the folder of a temporary store when the store is garbage-collected."""

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
        """Return the values of these rows; negative row numbers are not allowed."""
        edges = self.starts[np.asarray(rows, np.int64)[:, None] + np.arange(2)].tolist()
        unpack, packed = self.unpacker.unpack, self.rows
        return [unpack(packed[start:stop]) for start, stop in edges]

    def __iter__(self) -> Iterator[Any]:
        for start in range(0, self.size, BLOCK):
            yield from self[start : start + BLOCK]
            self.release_pages()

    def close(self) -> None:
        """Close the memory maps, so that the folder can be moved on every operating system."""
        if isinstance(self.rows, mmap.mmap):
            self.rows.close()
        self.starts = np.empty(0, np.int64)

    def release_pages(self) -> None:
        """Release the pages that were read. They stay in the operating system's page cache."""
        if hasattr(mmap, "MADV_DONTNEED") and isinstance(self.rows, mmap.mmap):
            self.rows.madvise(mmap.MADV_DONTNEED)


class StoreWriter:
    """Writes values to a folder; a context manager, which closes the files."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.packer = Packer()
        self.rows, self.starts = (HashedFile(private_folder(folder) / name) for name in (ROWS, STARTS))
        self.buffered_starts = [0]
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
        self.buffered_starts.append(self.size)
        self.count += 1
        if len(self.buffered_starts) >= BLOCK:
            self.write_starts()

    def write_starts(self) -> None:
        self.starts.write(np.array(self.buffered_starts, np.int64).tobytes())
        self.buffered_starts = []

    def close(self) -> dict[str, Any]:
        """Flush everything to the disk and return the store's description for an index."""
        self.write_starts()
        entries = [self.rows.close(), self.starts.close()]
        classes = [class_name(kind) for kind in self.packer.classes]
        return {"classes": classes, "byteorder": sys.byteorder, "count": self.count, "files": entries}


class HashedFile:
    """A new file in the cache that only this user can read, hashed while it is written. Its context closes it."""

    def __init__(self, path: Path):
        self.path, self.sha256 = path, hashlib.sha256()
        with keeping(path):
            self.file = create_private(path, "wb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(OSError):  # unflushed content belongs to a file that is discarded
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
            stat = self.path.stat()
        return {
            "file": self.path.name,
            "size": stat.st_size,
            "sha256": self.sha256.hexdigest(),
            "changed": stat.st_mtime_ns,
        }


def mapped(path: Path, dtype: np.dtype[Any], count: int) -> np.ndarray:
    """Return the memory-mapped array in a file."""
    array: np.ndarray = np.asarray(np.memmap(path, dtype, "r", shape=(count,))) if count else np.empty(0, dtype)
    return array


def in_range(row: Any, count: int) -> int:
    """Return a row number from 0 to count - 1; negative ones count from the end."""
    number = int(row)
    if not -count <= number < count:
        raise IndexError(f"row {number} of {count}")
    return number % count


def folder_aside(cache: Path) -> Path:
    """Create a folder in the cache for unfinished files, and remove those that killed processes have left."""
    with keeping(cache):
        private_folder(cache)
        host = socket.gethostname()
        for folder in cache.glob("*.partial-rows"):
            process, _, owner = folder.name.partition("@")
            is_ours = owner.startswith(f"{host}@")
            with suppress(OSError):
                if not is_running(process) if is_ours else time.time() - folder.stat().st_mtime > ABANDONED:
                    shutil.rmtree(folder)
        return private_folder(cache / f"{os.getpid()}@{host}@{uuid4().hex}.partial-rows")


def is_running(process: str) -> bool:
    if not process.isdigit() or os.name == "nt":  # on Windows, signal 0 would kill the process
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
    """Remove an unfinished folder if the context raises an error or is interrupted."""
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


@contextmanager
def keeping(path: Path) -> Iterator[None]:
    """Turn the context's OSErrors into a UserError about the cache."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"the examples cannot be stored in {path}: {error.strerror or error}; free some space, make the folder"
            " writable, or set the environment variable CLEW_CACHE to another folder"
        ) from None
