"""Bilingual lexicons: a source word and one of its translations per line, separated by a tab or spaces. A word may have
several lines."""

from pathlib import Path

from clew.core.errors import UserError, counted
from clew.data.lines import read_lines


def read_lexicon(path: Path | str) -> list[tuple[str, str]]:
    """Read the pairs in order. If a tab separates them, words may contain spaces."""
    path = Path(path).expanduser()
    pairs: list[tuple[str, str]] = []
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        words = [word.strip() for word in line.split("\t")] if "\t" in line else line.split()
        if len(words) != 2 or not all(words):
            raise UserError(
                f"{path}:{number}: expected a word and its translation with a tab or a space between, found"
                f" {counted(len(words), 'word')}"
            )
        pairs.append((words[0], words[1]))
    if not pairs:
        raise UserError(f"{path}: there are no pairs of words in it; write a word and its translation on each line")
    return pairs
