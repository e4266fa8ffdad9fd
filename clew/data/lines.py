"""A file's lines, one at a time. Knows no format.

The text is UTF-8; a byte order mark is dropped, every line end (LF, CRLF, CR) is read as a newline, and a file whose name ends in .gz
is unzipped as it is read. What cannot be read so is told with the file's name and, where it has one, the line.
"""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import BinaryIO, TextIO

from clew.core.errors import UserError

FEW = 5
UTF_16 = (b"\xff\xfe", b"\xfe\xff")


def read_lines(path: Path) -> Iterator[str]:
    """The lines without their ends."""
    return (line.rstrip("\n") for line in ended_lines(path))


def ended_lines(path: Path) -> Iterator[str]:
    """The lines, each with the newline that ends it; the last may have none. A file without a single character is refused."""
    number = 0
    with opened(path) as stream:
        for number, line in enumerate(stream, start=1):
            if "\0" in line:
                raise UserError(f"{path}:{number}: a NUL character, so this is no plain text, or is damaged; mend it, or give another file")
            yield line
    if not number:
        raise UserError(f"{path}: the file is empty; give one with text in it")


@contextmanager
def opened(path: Path) -> Iterator[TextIO]:
    """The decoded stream of a file; whatever goes wrong with it is one sentence with the file's name."""
    try:
        check_file(path)
        try:
            with open_text(path) as stream:
                yield stream
        except UnicodeDecodeError:
            raise undecodable(path) from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserError(
            f"{path}: cannot be unzipped ({str(error).rstrip('.')}); copy it again, or rename it if it is no gzip file"
        ) from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None


def open_text(path: Path) -> TextIO:
    if is_zipped(path):
        return gzip.open(path, "rt", encoding="utf-8-sig", newline=None)  # type: ignore[return-value]
    return path.open(encoding="utf-8-sig", newline=None)


def open_bytes(path: Path) -> BinaryIO:
    return gzip.open(path, "rb") if is_zipped(path) else path.open("rb")  # type: ignore[return-value]


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
        return f"nor is there a folder {folder}"
    names = sorted(entry.name for entry in folder.iterdir())
    close = get_close_matches(path.name, names, n=1)
    if close:
        return f"near it there is {folder / close[0]}"
    if not names:
        return f"the folder {folder} is empty"
    return f"the folder {folder} has {', '.join(names[:FEW])}{' and more' if len(names) > FEW else ''}"


def undecodable(path: Path) -> UserError:
    """Where the first bad byte of a file is. Lines can be decoded one by one: no byte of a longer character is a newline."""
    offset, number = 0, 1
    with open_bytes(path) as stream:
        for line in stream:
            if offset == 0 and line.startswith(UTF_16):
                return UserError(f"{path}: this is UTF-16, not UTF-8; {converted(path, 'utf-16')}")
            try:
                line.decode()
            except UnicodeDecodeError as error:
                byte, place = line[error.start], offset + error.start
                number += num_ends(line[: error.start])
                return UserError(f"{path}: byte 0x{byte:02x} at offset {place} (line {number}) is not UTF-8; {converted(path, 'latin1')}")
            offset += len(line)
            number += num_ends(line)
    return UserError(f"{path}: not UTF-8; {converted(path, 'latin1')}")


def converted(path: Path, encoding: str) -> str:
    return f"convert it, e.g. iconv -f {encoding} -t utf-8 {path.name} > utf8-{path.name}"


def num_ends(line: bytes) -> int:
    return line.count(b"\n") + line.count(b"\r") - line.count(b"\r\n")
