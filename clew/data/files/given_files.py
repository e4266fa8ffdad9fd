"""A file as a person gave it: its path, with what was said of how it is written. Opens nothing."""

import codecs
import os
from pathlib import Path, PosixPath, WindowsPath

from clew.core.errors import UserError, command, named, shortened

TRIED = ("utf-8", "cp1252", "latin-1", "utf-16", "cp1251", "shift_jis", "gb18030")
"""Encodings that a sentence names."""


class GivenFile(WindowsPath if os.name == "nt" else PosixPath):  # type: ignore[misc]
    """A path, with the encoding of the text and what parts a table's fields, where they were given. A path made of it
    has neither."""

    encoding: str | None = None
    delimiter: str | None = None


def given_file(path: Path | str, encoding: str | None = None, delimiter: str | None = None) -> Path:
    """The path itself where nothing was said of it."""
    path = path if isinstance(path, GivenFile) else Path(path)
    if encoding is None and delimiter is None:
        return path
    given = GivenFile(path)
    given.encoding, given.delimiter = encoding, delimiter
    return given


def at_home(path: Path | str) -> Path:
    """The path with ~ written out, and what was said of the file."""
    try:
        expanded = Path(path).expanduser()
    except RuntimeError:
        raise UserError(
            f"no such file: {shortened(str(path))}; there is no user of that name; write ./~ for a name that begins so"
        ) from None
    return given_file(expanded, given_encoding(path), given_delimiter(path))


def given_encoding(path: Path | str) -> str | None:
    return path.encoding if isinstance(path, GivenFile) else None


def given_delimiter(path: Path | str) -> str | None:
    return path.delimiter if isinstance(path, GivenFile) else None


def check_encoding(name: str) -> str:
    """An encoding of text that Python knows; UTF-8 and UTF-16 with or without a byte order mark."""
    try:
        codec = codecs.lookup(name)
    except (LookupError, ValueError):
        raise UserError(
            f"data.encoding: unknown encoding {named(name)}; known are {', '.join(TRIED)} and what else Python knows"
        ) from None
    if not codec._is_text_encoding:
        raise UserError(
            f"data.encoding: {named(name)} does not encode text; known are {', '.join(TRIED)} and what else Python"
            " knows"
        )
    return "utf-8-sig" if codec.name == "utf-8" else codec.name


def check_delimiter(text: str) -> str:
    """One character, which a tab may be called by its name."""
    text = {"tab": "\t", "\\t": "\t"}.get(text, text)
    if len(text) != 1 or text in '"\r\n\0':
        raise UserError(
            f"data.delimiter={command(text)}: what parts fields is one character, such as , ; | or tab, and no quote"
        )
    return text
