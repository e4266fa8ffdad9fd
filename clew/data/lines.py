"""Read a file's lines, one at a time. Knows no format.

Compressed files are decompressed while they are read; for a file that is not text, the error names its kind
(`first_bytes`). The text is UTF-8, or in the encoding that is given or guessed. A byte order mark is dropped, and every
line end (LF, CRLF, CR) is read as a newline. Errors name the file and, where possible, the line.
"""

import io
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TextIO

from clew.core.errors import UserError, shortened
from clew.data.files.encodings import Guess, Recoded, begins_as_utf8, detect_encoding, guess_encoding
from clew.data.files.first_bytes import HEAD, PACKED, detect_kind, foreign_file_error
from clew.data.files.given_files import TRIED, check_encoding, given_encoding
from clew.data.files.unpacking import PIECE, kind_at, open_bytes

FEW = 5
LOOKED_AT = 2**26
"""Bytes of a file that `find_encoding` reads at most."""


def read_lines(path: Path, longest: int | None = None) -> Iterator[str]:
    """Yield the lines without their ends; refuse a line of more than `longest` characters."""
    return (line.rstrip("\n") for line in ended_lines(path, longest))


def ended_lines(path: Path, longest: int | None = None) -> Iterator[str]:
    """Yield the lines, each with its newline, which the last may lack. Refuse a file without a single character."""
    number = 0
    with open_decoded(path) as stream:
        lines = stream if longest is None else iter(lambda: stream.readline(longest + 1), "")
        for number, line in enumerate(lines, start=1):
            if longest is not None and len(line) > longest:
                raise UserError(
                    f"{path}:{number}: this line has more than {longest:,} characters; check that this is the right"
                    " file"
                )
            if "\0" in line:
                raise UserError(
                    f"{path}:{number}: there is a NUL character, so this is not plain text, or it is damaged; repair"
                    " it, or give another file"
                )
            yield line
    if not number:
        raise UserError(f"{path}: the file is empty; give one with text in it")


@contextmanager
def open_decoded(path: Path) -> Iterator[TextIO]:
    """Open a file as a decoded stream. Any error becomes one message with the file's name."""
    with naming_errors(path):
        try:
            with open_text(path) as stream:
                yield stream
        except UnicodeDecodeError:
            raise not_text(path) from None


@contextmanager
def naming_errors(path: Path) -> Iterator[None]:
    """Turn any error in reading a file inside the block into one message with its name."""
    try:
        check_file(path)
        yield
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None


def open_text(path: Path) -> TextIO:
    stream = open_bytes(path)
    try:
        head = stream.peek(HEAD)[:HEAD]
        if (kind := detect_kind(head)) is not None and given_encoding(path) is None:
            raise foreign_file_error(path, kind)
        if (encoding := known_encoding(path, head)) is not None:
            return io.TextIOWrapper(stream, encoding=encoding, newline=None)
        if begins_as_utf8(stream.peek(PIECE)):  # without recoding, which is a fifth faster
            return io.TextIOWrapper(stream, encoding="utf-8-sig", newline=None)
        recoded = Recoded(stream, partial(guess_file_encoding, path))
        return io.TextIOWrapper(io.BufferedReader(recoded, PIECE), encoding="utf-8-sig", newline=None)
    except BaseException:
        stream.close()
        raise


def known_encoding(path: Path, head: bytes) -> str | None:
    """The encoding that was given, or that the first bytes show."""
    if (encoding := given_encoding(path)) is not None:
        return check_encoding(encoding)
    detected = detect_encoding(head)
    return None if detected is None else detected.encoding


def guess_file_encoding(path: Path) -> Guess | None:
    """Guess the encoding of a file that is not UTF-8, from all of its bytes."""
    with open_bytes(path) as stream:
        return guess_encoding(iter(lambda: stream.read(PIECE), b""))


def find_encoding(path: Path) -> Guess | None:
    """Return the encoding that a file is read in, and why, if it is not UTF-8. Of a large file, only the beginning is
    read."""
    if kind_at(path) not in (None, *PACKED):
        return None
    with naming_errors(path), open_bytes(path) as stream:
        head = stream.peek(HEAD)[:HEAD]
        if (encoding := given_encoding(path)) is not None:
            return Guess(encoding, "it was given")
        if (detected := detect_encoding(head)) is not None:
            return None if detected.encoding == "utf-8-sig" else detected
        guesses: list[Guess | None] = []
        recoded = Recoded(stream, lambda: guesses.append(guess_file_encoding(path)) or guesses[0])  # type: ignore[func-returns-value]
        for _ in range(LOOKED_AT // PIECE):
            if recoded.is_settled or not recoded.read(PIECE):
                break
        return guesses[0] if guesses else None


def is_zipped(path: Path) -> bool:
    return path.suffix.lower() == ".gz"


def check_file(path: Path) -> None:
    """Refuse a path that is not a regular file. Files are read more than once, which a pipe does not allow."""
    if path.is_dir():
        raise UserError(f"{path}: this is a folder; name a file in it: {near(path / '*')}")
    if not path.exists():
        raise UserError(f"no such file: {path}; {near(path)}")
    if not path.is_file():
        raise UserError(f"{path}: this is a pipe or a device; save its output to a file, and give that file")


def near(path: Path) -> str:
    """Describe what there is in place of a missing path."""
    folder = path.parent
    if not folder.is_dir():
        return f"nor is there a folder {shortened(str(folder))}"
    try:
        names = sorted(entry.name for entry in folder.iterdir() if entry.name != path.name)
    except OSError as error:
        return f"the folder {folder} cannot be read: {error.strerror or error}"
    if (close := close_file(path)) is not None:
        return f"near it there is {shortened(close)}"
    if not names:
        return f"the folder {folder} is empty"
    return (
        f"the folder {folder} has"
        f" {', '.join(shortened(name, 20) for name in names[:FEW])}{' and more' if len(names) > FEW else ''}"
    )


def close_file(path: Path) -> str | None:
    """Return the path of the file or folder with the closest name, if one is close."""
    try:
        names = sorted(entry.name for entry in path.parent.iterdir() if entry.name != path.name)
    except OSError:
        return None
    close = get_close_matches(path.name, names, n=1)
    return str(path.parent / close[0]) if close else None


def not_text(path: Path) -> UserError:
    """The error for a file that its encoding cannot decode: the first bad byte, and how to convert the file."""
    if (encoding := given_encoding(path)) is not None:
        return UserError(
            f"{path}: this is not {encoding}, as data.encoding says; leave that out to have the encoding guessed, or"
            " try"
            f" {', '.join(TRIED)}"
        )
    offset, number, start = 0, 1, b""
    with open_bytes(path) as stream:
        for line in stream:  # no byte of a longer character is a newline
            start = start or line[:2]
            zero = line.find(0)
            try:
                line[: zero if zero >= 0 else None].decode()
                bad = zero
            except UnicodeDecodeError as error:
                bad = error.start
            if bad >= 0:
                where = f"byte 0x{line[bad]:02x} at offset {offset + bad} (line {number + num_ends(line[:bad])})"
                return UserError(
                    f"{path}: {where} is not {'text' if bad == zero else 'UTF-8'}; {remedy(path, bad == zero)}"
                )
            offset += len(line)
            number += num_ends(line)
    return UserError(f"{path}: it changed while it was read; let no other program write to it")


LONGEST_COMMAND = 240
"""Characters of the longest command that a message includes."""


def remedy(path: Path, is_zero: bool) -> str:
    """How to convert bytes whose encoding cannot be guessed, or how to remove zeros."""
    file, new = shlex.quote(str(path)), shlex.quote(str(path.with_name(f"utf8-{path.name}")))
    if is_zero:
        return f"remove it, e.g. tr -d '\\000' < {file} > {new}"
    command = f", e.g. iconv -f latin1 -t utf-8 {file} > {new}"
    advice = f"set data.encoding={'|'.join(TRIED[1:])}, or convert it"
    return advice + (command if len(command) <= LONGEST_COMMAND else " to UTF-8")


def num_ends(line: bytes) -> int:
    return line.count(b"\n") + line.count(b"\r") - line.count(b"\r\n")
