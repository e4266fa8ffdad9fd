"""Packed files (gzip, bzip2, xz, zstd, zip), unpacked while they are read. The compression is detected by the first
bytes.

The unpacked size is bounded, so that a small file cannot fill the memory. The names of an archive's members are shown,
and never opened as paths.
"""

import bz2
import gzip
import importlib
import io
import lzma
import os
import zipfile
import zlib
from pathlib import Path
from typing import Any, BinaryIO

from clew.core.errors import UserError, command, few_of
from clew.core.files import open_file
from clew.data.files.first_bytes import HEAD, PACKED, detect_kind, foreign_file_error, kind_of_archive

PIECE = 2**16
SMALL, RATIO = 2**26, 100
"""Limits of the unpacked size: bytes that are always allowed, and multiples of the packed size."""
SUFFIXES = (".gz", ".bz2", ".xz", ".zst", ".zip")
"""File name endings of packed files."""
BROKEN = (EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError)
"""Exceptions that the decompression modules raise for damaged files."""


def open_bytes(path: Path) -> io.BufferedReader:
    """Open a file for reading, unpacking it if it is packed."""
    file = open_file(path)
    try:
        kind = detect_kind(file.peek(HEAD)[:HEAD])
        if kind not in PACKED:
            return file
        size = os.fstat(file.fileno()).st_size
        return io.BufferedReader(Unpacked(unpacked(file, kind, path), file, path, size), PIECE)
    except BaseException:
        file.close()
        raise


def plain_name(name: str) -> str:
    """Return a file name without the ending of its compression."""
    return next((name.removesuffix(suffix) for suffix in SUFFIXES if name.endswith(suffix)), name)


def kind_at(path: Path) -> str | None:
    """Return the kind of a file by its first bytes, and of a zip archive by its members; None for text, and for files
    that cannot be opened."""
    try:
        with open_file(path) as file:
            kind = detect_kind(file.peek(HEAD)[:HEAD])
            return kind_of_archive(zipfile.ZipFile(file).namelist()) or kind if kind == "zip" else kind
    except zipfile.BadZipFile:
        return "zip"
    except (OSError, ValueError):
        return None


def unpacked(file: BinaryIO, kind: str, path: Path) -> Any:
    """Return a stream of the unpacked bytes."""
    if kind == "zip":
        return only_member(file, path)
    if kind == "zstd":
        return open_zstd(file, path)
    if kind == "gzip":
        return gzip.GzipFile(fileobj=file, mode="rb")
    return bz2.BZ2File(file) if kind == "bzip2" else lzma.LZMAFile(file)


def only_member(file: BinaryIO, path: Path) -> Any:
    """Open the only file in a zip archive. An archive of several files is refused, with their names."""
    try:
        archive = zipfile.ZipFile(file)
    except BROKEN as error:
        raise damaged_file_error(path, error) from None
    names = archive.namelist()
    if (kind := kind_of_archive(names)) is not None:
        raise foreign_file_error(path, kind)
    members = [member for member in archive.infolist() if not member.is_dir() and not is_hidden(member.filename)]
    folder = path.with_name(f"{path.stem}-files")
    if not members:
        raise UserError(f"{path}: this zip archive is empty; give one with a file in it")
    if len(members) > 1:
        raise UserError(
            f"{path}: this zip archive has {len(members)} files, and only one can be read:"
            f" {few_of([member.filename for member in members])}; unpack it with"
            f" {command('python', '-m', 'zipfile', '-e', path, folder)} and give one of the files"
        )
    try:
        return archive.open(members[0])
    except RuntimeError:
        raise UserError(f"{path}: the file in this zip archive has a password; unpack it, and give that file") from None
    except BROKEN as error:
        raise damaged_file_error(path, error) from None


def is_hidden(name: str) -> bool:
    """Whether a member is hidden, such as those that macOS adds to archives."""
    return name.startswith("__MACOSX/") or name.rpartition("/")[2].startswith(".")


def open_zstd(file: BinaryIO, path: Path) -> Any:
    """Open a zstd file with the first available of Python's own module (from 3.14), zstandard and pyarrow."""
    for module, open_stream in ZSTD.items():
        try:
            return open_stream(importlib.import_module(module), file)
        except ImportError:
            continue
    raise UserError(
        f"{path}: this is packed with zstd, which needs a package; run pip install 'clew[tables]', "
        f"or unpack it with {command('zstd', '-d', path)}"
    )


ZSTD = {
    "compression.zstd": lambda module, file: module.ZstdFile(file, mode="rb"),
    "zstandard": lambda module, file: module.ZstdDecompressor().stream_reader(file, read_across_frames=True),
    "pyarrow": lambda module, file: module.CompressedInputStream(module.PythonFile(file, mode="r"), "zstd"),
}


class Unpacked(io.RawIOBase):
    """The unpacked bytes of a file. Refuses a file that unpacks to more than a text of its packed size could, since it
    might fill the memory."""

    def __init__(self, inner: Any, file: BinaryIO, path: Path, size: int):
        super().__init__()
        self.inner, self.file, self.path = inner, file, path
        self.left = largest_unpacked_size(size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            chunk = self.inner.read(len(buffer))
        except BROKEN as error:
            raise damaged_file_error(self.path, error) from None
        self.left -= len(chunk)
        if self.left < 0:
            raise unpacked_size_error(self.path)
        buffer[: len(chunk)] = chunk
        return len(chunk)

    def close(self) -> None:
        if not self.closed:
            self.inner.close()
            self.file.close()
        super().close()


def largest_unpacked_size(size: int) -> int:
    """Return the limit in bytes for a file of `size` packed bytes. Text is packed to a tenth of its size, rarely to
    less than a fiftieth."""
    return max(SMALL, RATIO * size)


def unpacked_size_error(path: Path) -> UserError:
    return UserError(
        f"{path}: unpacks to more than {RATIO} times its size, which no text does; if you trust it, unpack it first and"
        " give that file"
    )


def damaged_file_error(path: Path, error: Exception) -> UserError:
    return UserError(
        f"{path}: cannot be unpacked ({str(error).rstrip('.') or type(error).__name__}); it is damaged, so copy it"
        " again"
    )
