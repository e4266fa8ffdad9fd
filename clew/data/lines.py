"""A file's lines, one at a time. Knows no format.

A file that is packed is unpacked as it is read, and what is not text is named (`first_bytes`). The text is UTF-8, or in
the encoding that was given or is guessed; a byte order mark is dropped, and every line end (LF, CRLF, CR) is read as a
newline. What cannot be read so is told with the file's name and, where it has one, the line.
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
from clew.data.files.encodings import Guess, Recoded, begins_as_utf8, guess_encoding, of_beginning
from clew.data.files.first_bytes import HEAD, PACKED, is_foreign, kind_of
from clew.data.files.given_files import TRIED, check_encoding, given_encoding
from clew.data.files.unpacking import PIECE, kind_at, open_bytes

FEW = 5
LOOKED_AT = 2**26
"""Bytes of a file in which an encoding is looked for, to be told."""


def read_lines(path: Path, longest: int | None = None) -> Iterator[str]:
    """The lines without their ends; one of more than `longest` characters is refused."""
    return (line.rstrip("\n") for line in ended_lines(path, longest))


def ended_lines(path: Path, longest: int | None = None) -> Iterator[str]:
    """The lines, each with the newline that ends it; the last may have none. A file without a single character is
    refused."""
    number = 0
    with opened(path) as stream:
        lines = stream if longest is None else iter(lambda: stream.readline(longest + 1), "")
        for number, line in enumerate(lines, start=1):
            if longest is not None and len(line) > longest:
                raise UserError(
                    f"{path}:{number}: a line of more than {longest:,} characters; see whether it is the file that you"
                    " mean"
                )
            if "\0" in line:
                raise UserError(
                    f"{path}:{number}: a NUL character, so this is no plain text, or is damaged; mend it, or give"
                    " another file"
                )
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
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None


def open_text(path: Path) -> TextIO:
    stream = open_bytes(path)
    try:
        head = stream.peek(HEAD)[:HEAD]
        if (kind := kind_of(head)) is not None and given_encoding(path) is None:
            raise is_foreign(path, kind)
        if (encoding := known_encoding(path, head)) is not None:
            return io.TextIOWrapper(stream, encoding=encoding, newline=None)
        if begins_as_utf8(stream.peek(PIECE)):  # as it is, which is a fifth faster
            return io.TextIOWrapper(stream, encoding="utf-8-sig", newline=None)
        recoded = Recoded(stream, partial(guess_of, path))
        return io.TextIOWrapper(io.BufferedReader(recoded, PIECE), encoding="utf-8-sig", newline=None)
    except BaseException:
        stream.close()
        raise


def known_encoding(path: Path, head: bytes) -> str | None:
    """The encoding that was given, or that the first bytes tell."""
    if (given := given_encoding(path)) is not None:
        return check_encoding(given)
    told = of_beginning(head)
    return None if told is None else told.encoding


def guess_of(path: Path) -> Guess | None:
    """The encoding of a whole file that is not UTF-8."""
    with open_bytes(path) as stream:
        return guess_encoding(iter(lambda: stream.read(PIECE), b""))


def find_encoding(path: Path) -> Guess | None:
    """The encoding that a file is read in, and why, where that is not UTF-8; of a large file only the beginning is
    looked at."""
    if kind_at(path) not in (None, *PACKED):
        return None
    with reading(path), open_bytes(path) as stream:
        head = stream.peek(HEAD)[:HEAD]
        if (given := given_encoding(path)) is not None:
            return Guess(given, "it was given")
        if (told := of_beginning(head)) is not None:
            return None if told.encoding == "utf-8-sig" else told
        found: list[Guess | None] = []
        recoded = Recoded(stream, lambda: found.append(guess_of(path)) or found[0])  # type: ignore[func-returns-value]
        for _ in range(LOOKED_AT // PIECE):
            if recoded.is_settled or not recoded.read(PIECE):
                break
        return found[0] if found else None


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
    return (
        f"the folder {folder} has"
        f" {', '.join(shortened(name, 20) for name in names[:FEW])}{' and more' if len(names) > FEW else ''}"
    )


def no_text(path: Path) -> UserError:
    """Where the first byte is that the encoding does not have, and what makes text of it."""
    if (given := given_encoding(path)) is not None:
        return UserError(
            f"{path}: this is not {given}, which data.encoding says; leave it out to have it guessed, or try"
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
    return UserError(f"{path}: it was not UTF-8 when it was read, and now it is; let no other program write there")


LONGEST_COMMAND = 240
"""Characters of a command that a sentence holds."""


def remedy(path: Path, is_zero: bool) -> str:
    """What makes text of bytes for which there is no guess, or takes zeros out."""
    file, new = shlex.quote(str(path)), shlex.quote(str(path.with_name(f"utf8-{path.name}")))
    if is_zero:
        return f"take it out, e.g. tr -d '\\000' < {file} > {new}"
    command = f", e.g. iconv -f latin1 -t utf-8 {file} > {new}"
    said = f"say what it is with data.encoding={'|'.join(TRIED[1:])}, or convert it"
    return said + (command if len(command) <= LONGEST_COMMAND else " to UTF-8")


def num_ends(line: bytes) -> int:
    return line.count(b"\n") + line.count(b"\r") - line.count(b"\r\n")
