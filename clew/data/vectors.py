"""Read word vectors from text files, as GloVe, word2vec and fastText write them: on each line a word and its numbers,
separated by spaces. Also from word2vec's binary files: the same first line, then each word, a space, and its numbers in
four bytes each.

word2vec and fastText begin with a line of the number of words and of numbers for each word; GloVe does not. Only the
requested words are kept in memory; of the other lines, only the number of columns is checked. A word may contain
spaces, as some of GloVe's do. If a word appears twice, its first line counts.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from clew.core.errors import UserError, counted, shown
from clew.core.memory import check_memory
from clew.data.files.first_bytes import CONTROLS
from clew.data.files.unpacking import PIECE, open_bytes
from clew.data.lines import naming_errors, read_lines

LARGEST = float(np.finfo(np.float32).max)
RULE = "each line must be a word and its numbers, separated by spaces"
LONGEST = 2**22
"""Characters of a line, at most."""
LONGEST_WORD = 2**12
"""Bytes of a word in a binary file, at most."""
HEADER = re.compile(rb"\d+ \d+\r?\n")
FIRST, FEWEST = 20, 8
"""Lines by which a file of vectors is detected, and the fewest numbers on each."""
SEE = "check that this is a file of word vectors"


@dataclass(frozen=True, eq=False)
class WordVectors:
    """A row for each requested word; `found` is True if the file has the word, and other rows are 0."""

    values: np.ndarray  # (words, dim), float32
    found: np.ndarray  # (words,)
    num_lowercased: int  # of the words found, how many only in lower case
    num_in_file: int
    num_declared: int | None = None  # the number of vectors in the first line, if it has one

    @property
    def dim(self) -> int:
        return self.values.shape[1]

    def describe(self) -> str:
        """Return a summary in one line."""
        num_found, num_words = int(self.found.sum()), len(self.found)
        lowercased = f" ({self.num_lowercased:,} in lower case)" if self.num_lowercased else ""
        fewer = self.num_declared is not None and self.num_in_file < self.num_declared
        missing = f"; the file's first line says {self.num_declared:,}, so its end is missing" if fewer else ""
        counts = f"{num_found:,} of {num_words:,} words{lowercased}"
        return f"{counts} among {self.num_in_file:,} vectors of {self.dim}{missing}"


def read_vectors(
    path: Path | str, words: Sequence[str], *, dim: int | None = None, lowercase: bool = True
) -> WordVectors:
    """Read the vectors of `words`. With `lowercase`, the vector of paris is used for Paris if there is no Paris. `dim`
    is the required width; None accepts any."""
    path = Path(path).expanduser()
    exact: dict[str, list[int]] = {}
    lowered: dict[str, list[int]] = {}
    for place, word in enumerate(words):
        exact.setdefault(word, []).append(place)
        if lowercase and word.lower() != word:
            lowered.setdefault(word.lower(), []).append(place)

    values, num_in_file = np.zeros((0, 0), np.float32), 0
    found, found_lowered = np.zeros((2, len(words)), dtype=bool)
    for line in vector_lines(path, dim):
        if not num_in_file:
            check_memory(
                4 * len(words) * line.width,
                f"{counted(len(words), 'vector')} of {line.width:,} numbers, as {path} has them",
                SEE,
            )
            values = np.zeros((len(words), line.width), np.float32)
        num_in_file += 1
        if line.word not in exact and line.word not in lowered:
            continue
        new = [place for place in exact.get(line.word, ()) if not found[place]]
        new_lowered = [place for place in lowered.get(line.word, ()) if not found[place] and not found_lowered[place]]
        if new or new_lowered:
            vector = parse_numbers(line.numbers, line.where)
            for place in new:
                values[place], found[place] = vector, True
            for place in new_lowered:
                values[place], found_lowered[place] = vector, True
    if not num_in_file:
        raise UserError(f"{path}: there are no vectors in it; {RULE}")
    return WordVectors(
        values, found | found_lowered, int((found_lowered & ~found).sum()), num_in_file, first_line(path)[0]
    )


def first_words(path: Path | str, most: int) -> list[str]:
    """Return the first `most` words of the file: in the usual order, the most frequent ones."""
    return [line.word for line in islice(vector_lines(Path(path).expanduser()), most)]


def vector_width(path: Path | str) -> int:
    """Return how many numbers a word has, judged by the first line."""
    path = Path(path).expanduser()
    line = next(vector_lines(path), None)
    if line is None:
        raise UserError(f"{path}: there are no vectors in it; {RULE}")
    return line.width


class Line(NamedTuple):
    word: str
    numbers: str | np.ndarray
    width: int
    where: str


def vector_lines(path: Path, dim: int | None = None) -> Iterator[Line]:
    """Yield every line with a vector. `dim` is the required width; None accepts any."""
    if is_binary(path):
        yield from binary_vectors(path, dim)
        return
    width = 0
    for number, line in enumerate(read_lines(path, LONGEST), start=1):
        line = line.replace("\t", " ").rstrip(" ")
        if number == 1:
            header_width = header(line)[1]
            width = header_width or num_numbers(line.split(" "))
            check_width(f"{path}:1", dim, width)
            if header_width:
                continue
        if line:
            where = f"{path}:{number}"
            end = line.index(" ") if line.count(" ") == width else word_end(line, width, where)
            yield Line(line[:end], line[end + 1 :], width, where)


def width_of_vectors(path: Path) -> int | None:
    """Return how many numbers a word has; None if this is not a file of word vectors."""
    if is_binary(path):
        return first_line(path)[1]
    lines = [line.replace("\t", " ").rstrip(" ") for line in islice(read_lines(path, LONGEST), FIRST)]
    header_width = header(lines[0])[1]
    widths = {num_numbers(line.split(" ")) for line in (lines if header_width is None else lines[1:])}
    width = widths.pop() if len(widths) == 1 else 0
    return width if width >= FEWEST and header_width in (None, width) else None


def is_binary(path: Path) -> bool:
    """Whether a first line of two numbers is followed by bytes that text never has."""
    with naming_errors(path), open_bytes(path) as file:
        head = file.peek(PIECE)[:PIECE]
        return HEADER.match(head) is not None and not CONTROLS.isdisjoint(head)


def binary_vectors(path: Path, dim: int | None) -> Iterator[Line]:
    """Yield vectors up to the end of the file, or to one that is cut short. Some programs write a newline before each
    word except the first."""
    with naming_errors(path), open_bytes(path) as file:
        num_words, width = map(int, file.readline(LONGEST_WORD).split())
        check_width(f"{path}:1", dim, width)
        if 4 * width > LONGEST:
            raise UserError(f"{path}:1: vectors of {width:,} numbers cannot be word vectors; {SEE}")
        for number in range(1, num_words + 1):
            word = read_word(file, f"{path}: word {number}")
            numbers = np.frombuffer(data, dtype="<f4") if len(data := file.read(4 * width)) == 4 * width else None
            if numbers is None:
                return
            yield Line(word, numbers, width, f"{path}: word {number}")


def read_word(file: BinaryIO, where: str) -> str:
    """Read the bytes up to the next space as a word."""
    word = bytearray()
    while (byte := file.read(1)) not in (b" ", b""):
        word += byte
        if len(word) > LONGEST_WORD:
            raise UserError(f"{where} has more than {LONGEST_WORD:,} bytes; {SEE}")
    return word.lstrip(b"\n").decode("utf-8", "replace")


def first_line(path: Path) -> tuple[int | None, int | None]:
    """Return the number of words and the width in the first line; None if it has none."""
    if not is_binary(path):
        return header(next(read_lines(path, LONGEST)))
    with naming_errors(path), open_bytes(path) as file:
        return header(file.readline(LONGEST_WORD).decode().strip())


def header(line: str) -> tuple[int | None, int | None]:
    """Return the number of words and the width from a first line of two numbers; None for any other line."""
    fields = line.replace("\t", " ").rstrip(" ").split(" ")
    if len(fields) == 2 and all(field.isascii() and field.isdigit() for field in fields):
        return int(fields[0]), int(fields[1])
    return None, None


def word_end(line: str, width: int, where: str) -> int:
    """Return where the word ends on a line whose number of spaces is not its width: the word contains spaces, or the
    line is wrong."""
    fields = line.split(" ")
    numbers = num_numbers(fields)
    if numbers != width:
        raise UserError(
            f"{where}: expected a word and {counted(width, 'number')}, as on the first line, found"
            f" {counted(numbers, 'number')}"
        )
    return len(" ".join(fields[:-width]))


def num_numbers(fields: Sequence[str]) -> int:
    """Count the numbers at the end of a line; the first field is a word, or its beginning."""
    return next((place for place, field in enumerate(reversed(fields[1:])) if not is_number(field)), len(fields) - 1)


def parse_numbers(text: str | np.ndarray, where: str) -> Sequence[float] | np.ndarray:
    if not isinstance(text, str):
        if not np.isfinite(text).all():
            raise not_finite(where)
        return text
    fields = text.split(" ")
    try:
        numbers = list(map(float, fields))
    except ValueError:
        wrong = next(field for field in fields if not is_number(field))
        raise UserError(f"{where}: {shown(wrong)} is not a number; {RULE}") from None
    if not sum(map(abs, numbers)) < LARGEST:
        raise not_finite(where)
    return numbers


def not_finite(where: str) -> UserError:
    return UserError(f"{where}: the vector has a number that is not finite; leave the line out")


def is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def check_width(where: str, dim: int | None, width: int) -> None:
    if width < 1:
        raise UserError(f"{where}: there is no number on the line; {RULE}")
    if dim is not None and dim != width:
        raise UserError(
            f"{where}: vectors have {width} numbers, but {dim} are required; give another file, or set the width to"
            f" {width}"
        )
