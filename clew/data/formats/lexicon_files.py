"""Bilingual lexicons: a source word and a translation of it on every line, with a tab or spaces between. A word may
have several lines."""

from pathlib import Path

from clew.core.errors import UserError, counted
from clew.data.lines import read_lines


def read_lexicon(path: Path | str) -> list[tuple[str, str]]:
    """The pairs, in order; with tabs, words may have spaces inside."""
    path = Path(path).expanduser()
    found: list[tuple[str, str]] = []
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        words = [word.strip() for word in line.split("\t")] if "\t" in line else line.split()
        if len(words) != 2 or not all(words):
            raise UserError(
                f"{path}:{number}: expected a word and its translation with a tab or a space between, found"
                f" {counted(len(words), 'word')}"
            )
        found.append((words[0], words[1]))
    if not found:
        raise UserError(f"{path}: there is no pair of words in it; a line is a word and its translation")
    return found
