"""A file's lines, one at a time. Knows no format.

The text is UTF-8; a byte order mark is dropped, every line end (LF, CRLF, CR) is read as a newline, and a file whose name ends in .gz
is unzipped as it is read. What cannot be read so is told with the file's name and, where it has one, the line.
"""

import gzip
import io
import os
import shlex
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from clew.core.errors import UserError, shortened
from clew.core.files import open_file

FEW = 5
PIECE = 2**16
SMALL, RATIO = 2**26, 100
"""Bytes that any gzip file may become, and times its size that a larger one may."""


def read_lines(path: Path, longest: int | None = None) -> Iterator[str]:
    """The lines without their ends; one of more than `longest` characters is refused."""
    return (line.rstrip("\n") for line in ended_lines(path, longest))


def ended_lines(path: Path, longest: int | None = None) -> Iterator[str]:
    """The lines, each with the newline that ends it; the last may have none. A file without a single character is refused."""
    number = 0
    with opened(path) as stream:
        lines = stream if longest is None else iter(lambda: stream.readline(longest + 1), "")
        for number, line in enumerate(lines, start=1):
            if longest is not None and len(line) > longest:
                raise UserError(f"{path}:{number}: a line of more than {longest:,} characters; see whether it is the file that you mean")
            if "\0" in line:
                raise UserError(f"{path}:{number}: a NUL character, so this is no plain text, or is damaged; mend it, or give another file")
            yield line
    if not number:
        raise UserError(f"{path}: the file is empty; give one with text in it")


@contextmanager
def opened(path: Path) -> Iterator[TextIO]:
    """The decoded stream of a file; whatever goes wrong with it is one sentence with the file's name."""
    with reading(path):
        try:
            with open_text(path) as stream:
                yield stream
        except UnicodeDecodeError:
            raise no_text(path) from None


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Whatever goes wrong with a file that is read inside is one sentence with its name."""
    try:
        check_file(path)
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserError(
            f"{path}: cannot be unzipped ({str(error).rstrip('.')}); copy it again, or rename it if it is no gzip file"
        ) from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None


def open_text(path: Path) -> TextIO:
    return io.TextIOWrapper(open_bytes(path), encoding="utf-8-sig", newline=None)


def open_bytes(path: Path) -> BinaryIO:
    file = open_file(path)
    return io.BufferedReader(Unzipped(file, path), PIECE) if is_zipped(path) else file


class Unzipped(io.RawIOBase):
    """What a gzip file holds, up to what a text can be packed into so few bytes: a small file that would fill the memory is refused."""

    def __init__(self, file: BinaryIO, path: Path):
        super().__init__()
        self.file, self.path = file, path
        self.inner = gzip.GzipFile(fileobj=file, mode="rb")
        self.left = most_unzipped(os.fstat(file.fileno()).st_size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        chunk = self.inner.read(len(buffer))
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


def most_unzipped(size: int) -> int:
    """Bytes that so many of a gzip file may become: texts are packed into a tenth, rarely less than a fiftieth of their size."""
    return max(SMALL, RATIO * size)


def too_packed(path: Path) -> UserError:
    return UserError(
        f"{path}: unzipped, it is more than {RATIO} times its size, as no text is; where you trust it, unzip it first, and name that file"
    )


def is_zipped(path: Path) -> bool:
    return path.suffix.lower() == ".gz"


def check_file(path: Path) -> None:
    """A sentence where a path is no file. Files are read more than once, which a pipe is not."""
    if path.is_dir():
        raise UserError(f"{path}: this is a folder; name a file in it: {near(path / '*')}")
    if not path.exists():
        raise UserError(f"no such file: {path}; {near(path)}")
    if not path.is_file():
        raise UserError(f"{path}: this is a pipe or a device; write what comes from it to a file, and name that")


def near(path: Path) -> str:
    """What stands where a missing path was looked for."""
    folder = path.parent
    if not folder.is_dir():
        return f"nor is there a folder {shortened(str(folder))}"
    try:
        names = sorted(entry.name for entry in folder.iterdir() if entry.name != path.name)
    except OSError as error:
        return f"the folder {folder} cannot be read: {error.strerror or error}"
    close = get_close_matches(path.name, names, n=1)
    if close:
        return f"near it there is {shortened(str(folder / close[0]))}"
    if not names:
        return f"the folder {folder} is empty"
    return f"the folder {folder} has {', '.join(shortened(name, 20) for name in names[:FEW])}{' and more' if len(names) > FEW else ''}"


def no_text(path: Path) -> UserError:
    """Where the first byte is that no UTF-8 text has, and what makes text of it. Lines can be decoded one by one: no byte of a longer
    character is a newline."""
    offset, number, start = 0, 1, b""
    with open_bytes(path) as stream:
        for line in stream:
            start = start or line[:2]
            zero = line.find(0)
            try:
                line[: zero if zero >= 0 else None].decode()
                bad = zero
            except UnicodeDecodeError as error:
                bad = error.start
            if bad >= 0:
                where = f"byte 0x{line[bad]:02x} at offset {offset + bad} (line {number + num_ends(line[:bad])})"
                return UserError(f"{path}: {where} is not {'text' if bad == zero else 'UTF-8'}; {remedy(path.name, start, bad == zero)}")
            offset += len(line)
            number += num_ends(line)
    return UserError(f"{path}: it was not UTF-8 when it was read, and now it is; let no other program write there")


def remedy(name: str, start: bytes, is_zero: bool) -> str:
    """A command that makes UTF-8 of the likeliest encoding, told by the first two bytes, or takes zeros out."""
    file, new = (shlex.quote(name), shlex.quote(f"utf8-{name}")) if len(name) <= 40 else ("FILE", "utf8-FILE")
    if start in (b"\xff\xfe", b"\xfe\xff"):
        encoding = "utf-16"
    elif 0 in start:
        encoding = "utf-16le" if start[0] else "utf-16be"
    elif is_zero:
        return f"take it out, e.g. tr -d '\\000' < {file} > {new}"
    else:
        encoding = "latin1"
    return f"convert it, e.g. iconv -f {encoding} -t utf-8 {file} > {new}"


def num_ends(line: bytes) -> int:
    return line.count(b"\n") + line.count(b"\r") - line.count(b"\r\n")
