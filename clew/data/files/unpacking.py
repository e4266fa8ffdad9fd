"""Files that are packed (gzip, bzip2, xz, zstd, zip), unpacked as they are read. Their format is detected by their
first bytes.

What may come out is bounded, so that a small file does not fill the memory; the names of an archive's members are
shown, never opened.
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
from clew.data.files.first_bytes import HEAD, PACKED, is_foreign, kind_of, kind_of_archive

PIECE = 2**16
SMALL, RATIO = 2**26, 100
"""Bytes that any packed file may become, and times its size that a larger one may."""
SUFFIXES = (".gz", ".bz2", ".xz", ".zst", ".zip")
"""How the names of packed files end."""
BROKEN = (EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError)
"""What the modules say of a packed file that is damaged."""


def open_bytes(path: Path) -> io.BufferedReader:
    """What a file holds, unpacked where it is packed."""
    file = open_file(path)
    try:
        kind = kind_of(file.peek(HEAD)[:HEAD])
        if kind not in PACKED:
            return file
        size = os.fstat(file.fileno()).st_size
        return io.BufferedReader(Unpacked(unpacked(file, kind, path), file, path, size), PIECE)
    except BaseException:
        file.close()
        raise


def plain_name(name: str) -> str:
    """A name without the end that says how its file is packed."""
    return next((name.removesuffix(suffix) for suffix in SUFFIXES if name.endswith(suffix)), name)


def kind_at(path: Path) -> str | None:
    """What a file is by its first bytes, and a zip archive by its members; None for text, and for what cannot be
    opened."""
    try:
        with open_file(path) as file:
            kind = kind_of(file.peek(HEAD)[:HEAD])
            return kind_of_archive(zipfile.ZipFile(file).namelist()) or kind if kind == "zip" else kind
    except zipfile.BadZipFile:
        return "zip"
    except (OSError, ValueError):
        return None


def unpacked(file: BinaryIO, kind: str, path: Path) -> Any:
    """A stream of what is in it."""
    if kind == "zip":
        return only_member(file, path)
    if kind == "zstd":
        return open_zstd(file, path)
    if kind == "gzip":
        return gzip.GzipFile(fileobj=file, mode="rb")
    return bz2.BZ2File(file) if kind == "bzip2" else lzma.LZMAFile(file)


def only_member(file: BinaryIO, path: Path) -> Any:
    """The file in a zip archive; of several there is a sentence that names them."""
    try:
        archive = zipfile.ZipFile(file)
    except BROKEN as error:
        raise broken(path, error) from None
    names = archive.namelist()
    if (kind := kind_of_archive(names)) is not None:
        raise is_foreign(path, kind)
    members = [member for member in archive.infolist() if not member.is_dir() and not is_hidden(member.filename)]
    folder = path.with_name(f"{path.stem}-files")
    if not members:
        raise UserError(f"{path}: this zip archive is empty; give one with a file in it")
    if len(members) > 1:
        raise UserError(
            f"{path}: this zip archive has {len(members)} files, and one is read:"
            f" {few_of([member.filename for member in members])}; unpack it with"
            f" {command('python', '-m', 'zipfile', '-e', path, folder)} and name the one that you mean"
        )
    try:
        return archive.open(members[0])
    except RuntimeError:
        raise UserError(f"{path}: the file in this zip archive has a password; unpack it, and name that file") from None
    except BROKEN as error:
        raise broken(path, error) from None


def is_hidden(name: str) -> bool:
    """What a Mac adds to archives."""
    return name.startswith("__MACOSX/") or name.rpartition("/")[2].startswith(".")


def open_zstd(file: BinaryIO, path: Path) -> Any:
    """By Python itself (from 3.14), zstandard or pyarrow, whichever there is."""
    for module, reading in ZSTD.items():
        try:
            return reading(importlib.import_module(module), file)
        except ImportError:
            continue
    raise UserError(
        f"{path}: this is packed with zstd, which needs a package; install it with pip install 'clew[tables]', "
        f"or unpack it with {command('zstd', '-d', path)}"
    )


ZSTD = {
    "compression.zstd": lambda module, file: module.ZstdFile(file, mode="rb"),
    "zstandard": lambda module, file: module.ZstdDecompressor().stream_reader(file, read_across_frames=True),
    "pyarrow": lambda module, file: module.CompressedInputStream(module.PythonFile(file, mode="r"), "zstd"),
}


class Unpacked(io.RawIOBase):
    """What a packed file holds, up to what a text can be packed into so few bytes: a small file that would fill the
    memory is refused."""

    def __init__(self, inner: Any, file: BinaryIO, path: Path, size: int):
        super().__init__()
        self.inner, self.file, self.path = inner, file, path
        self.left = most_unpacked(size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            chunk = self.inner.read(len(buffer))
        except BROKEN as error:
            raise broken(self.path, error) from None
        self.left -= len(chunk)
        if self.left < 0:
            raise too_packed(self.path)
        buffer[: len(chunk)] = chunk
        return len(chunk)

    def close(self) -> None:
        if not self.closed:
            self.inner.close()
            self.file.close()
        super().close()


def most_unpacked(size: int) -> int:
    """Bytes that so many of a packed file may become: texts are packed into a tenth, rarely less than a fiftieth of
    their size."""
    return max(SMALL, RATIO * size)


def too_packed(path: Path) -> UserError:
    return UserError(
        f"{path}: unzipped, it is more than {RATIO} times its size, as no text is; where you trust it, unzip it first,"
        " and name that file"
    )


def broken(path: Path, error: Exception) -> UserError:
    return UserError(
        f"{path}: cannot be unzipped ({str(error).rstrip('.') or type(error).__name__}); it is damaged, so copy it"
        " again"
    )
