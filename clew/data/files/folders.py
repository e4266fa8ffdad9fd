"""The files of a text: a single file, or all files below a folder."""

from collections.abc import Callable
from pathlib import Path

from clew.core.errors import UserError, shortened
from clew.data.files.given_files import given_encoding, given_file
from clew.data.files.unpacking import plain_name
from clew.data.lines import near

TEXTS, OBJECTS = (".txt",), (".jsonl", ".ndjson")
"""File name endings that are read in a folder; a .gz may follow."""


def files_at(path: Path, endings: tuple[str, ...], has_text: Callable[[Path], bool]) -> list[Path]:
    """Return the file, or all non-empty files below a folder with one of the endings, in the order of their names.
    The files may be packed."""
    try:
        is_file, is_folder, exists = path.is_file(), path.is_dir(), path.exists()
    except OSError as error:
        raise UserError(f"no such file: {shortened(str(path))}; {error.strerror or error}") from None
    if is_file:
        if not has_text(path):
            raise UserError(f"{path}: the file is empty; give one with text in it")
        return [path]
    if exists and not is_folder:
        raise UserError(
            f"{path}: neither a file nor a folder; a text is read more than once, so save it to a file first"
        )
    if not is_folder:
        raise UserError(f"no such file: {shortened(str(path))}; {near(path)}")
    if not (files := files_below(path, endings, has_text)):
        raise UserError(
            f"{path}: no .txt or .jsonl file with text in this folder or below; name a file, or rename the text file to"
            " .txt"
        )
    return files


def files_below(folder: Path, endings: tuple[str, ...], has_text: Callable[[Path], bool]) -> list[Path]:
    encoding = given_encoding(folder)
    files = sorted(
        given_file(file, encoding) for file in folder.rglob("*") if ending(file) in endings and file.is_file()
    )
    return [file for file in files if not file.name.startswith(".") and has_text(file)]


def ending(path: Path) -> str:
    """Return the extension of a file name, ignoring that of a compression such as .gz."""
    return Path(plain_name(path.name.lower())).suffix


def has_bytes(path: Path) -> bool:
    return path.stat().st_size > 0
