"""A path together with the encoding and the delimiter that the user specified for it. Opens no file."""

import codecs
import os
from pathlib import Path, PosixPath, WindowsPath

from clew.core.errors import UserError, command, named, shortened

TRIED = ("utf-8", "cp1252", "latin-1", "utf-16", "cp1251", "shift_jis", "gb18030")
"""Encodings that messages suggest."""


class GivenFile(WindowsPath if os.name == "nt" else PosixPath):  # type: ignore[misc]
    """A path with the encoding of its text and the delimiter of its table, if specified. Paths derived from it have
    neither."""

    encoding: str | None = None
    delimiter: str | None = None


def given_file(path: Path | str, encoding: str | None = None, delimiter: str | None = None) -> Path:
    """Attach an encoding and a delimiter to a path; without either, return the path itself."""
    path = path if isinstance(path, GivenFile) else Path(path)
    if encoding is None and delimiter is None:
        return path
    file = GivenFile(path)
    file.encoding, file.delimiter = encoding, delimiter
    return file


def expand_home(path: Path | str) -> Path:
    """Replace a leading ~ by the home folder, keeping the specified encoding and delimiter."""
    try:
        expanded = Path(path).expanduser()
    except RuntimeError:
        raise UserError(
            f"no such file: {shortened(str(path))}; no user has that name; if a file name begins with ~, write ./~"
        ) from None
    return given_file(expanded, given_encoding(path), given_delimiter(path))


def given_encoding(path: Path | str) -> str | None:
    return path.encoding if isinstance(path, GivenFile) else None


def given_delimiter(path: Path | str) -> str | None:
    return path.delimiter if isinstance(path, GivenFile) else None


def check_encoding(name: str) -> str:
    """Return Python's name of a text encoding. UTF-8 and UTF-16 are read with or without a byte order mark."""
    try:
        codec = codecs.lookup(name)
    except (LookupError, ValueError):
        raise UserError(
            f"data.encoding: unknown encoding {named(name)}; use {', '.join(TRIED)} or any other that Python supports"
        ) from None
    if not codec._is_text_encoding:
        raise UserError(
            f"data.encoding: {named(name)} does not encode text; use {', '.join(TRIED)} or any other that Python"
            " supports"
        )
    return "utf-8-sig" if codec.name == "utf-8" else codec.name


def check_delimiter(text: str) -> str:
    """Return a delimiter, which must be one character; a tab may be written as `tab` or `\\t`."""
    text = {"tab": "\t", "\\t": "\t"}.get(text, text)
    if len(text) != 1 or text in '"\r\n\0':
        raise UserError(
            f"data.delimiter={command(text)}: a delimiter is one character, such as , ; | or tab, and not a quote"
        )
    return text
