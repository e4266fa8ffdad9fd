"""Word vectors from text files, as GloVe, word2vec and fastText write them: a word and its numbers a line, with spaces
between; and from word2vec's binary files, which have the same first line, and behind each word and a space its numbers
in four bytes each.

word2vec and fastText begin with a line that says how many words there are and how many numbers each has; GloVe does
not. Only the words that are asked for are kept, so that memory is theirs alone; of the other lines just the number of
columns is looked at. A word may have spaces inside, as some of GloVe's do. Of a word that is there twice the first line
counts.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from clew.core.errors import UserError, counted, shown
from clew.core.memory import check_fits
from clew.data.files.first_bytes import CONTROLS
from clew.data.files.unpacking import PIECE, open_bytes
from clew.data.lines import read_lines, reading

LARGEST = float(np.finfo(np.float32).max)
RULE = "a line is a word and its numbers, with spaces between"
LONGEST = 2**22
"""Characters of a line."""
LONGEST_WORD = 2**12
"""Bytes of a word in a binary file."""
HEADER = re.compile(rb"\d+ \d+\r?\n")
FIRST, FEWEST = 20, 8
"""Lines that tell a file of vectors, and numbers on each at least."""
SEE = "see whether it is a file of word vectors"


@dataclass(frozen=True, eq=False)
class WordVectors:
    """A row a word that was asked for; `found` is True where the file has it, and other rows are 0."""

    values: np.ndarray  # (words, dim), float32
    found: np.ndarray  # (words,)
    num_lowercased: int  # of these, how many were found in lower case alone
    num_in_file: int
    num_told: int | None = None  # how many its first line says that it has, if it does

    @property
    def dim(self) -> int:
        return self.values.shape[1]

    def describe(self) -> str:
        """One line."""
        found, asked = int(self.found.sum()), len(self.found)
        lowercased = f" ({self.num_lowercased:,} in lower case)" if self.num_lowercased else ""
        fewer = self.num_told is not None and self.num_in_file < self.num_told
        missing = f", of {self.num_told:,} that the file's first line tells: its end is missing" if fewer else ""
        return f"{found:,} of {asked:,} words{lowercased} among {self.num_in_file:,} vectors of {self.dim}{missing}"


def read_vectors(
    path: Path | str, words: Sequence[str], *, dim: int | None = None, lowercase: bool = True
) -> WordVectors:
    """The vectors of `words`. `lowercase` takes paris for Paris where there is no Paris; `dim` is what the width must
    be, if any will not do."""
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
            check_fits(
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
    """The file's words, so many of the first: where it is sorted as usual, the most frequent."""
    return [line.word for line in islice(vector_lines(Path(path).expanduser()), most)]


def vector_width(path: Path | str) -> int:
    """How many numbers a word has, as the first line tells."""
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
    """Every line with a vector; `dim` is what the width must be, if any will not do."""
    if is_binary(path):
        yield from binary_vectors(path, dim)
        return
    width = 0
    for number, line in enumerate(read_lines(path, LONGEST), start=1):
        line = line.replace("\t", " ").rstrip(" ")
        if number == 1:
            said = header(line)[1]
            width = said or num_numbers(line.split(" "))
            check_width(f"{path}:1", dim, width)
            if said:
                continue
        if line:
            where = f"{path}:{number}"
            end = line.index(" ") if line.count(" ") == width else word_end(line, width, where)
            yield Line(line[:end], line[end + 1 :], width, where)


def width_of_vectors(path: Path) -> int | None:
    """How many numbers a word has in a file of word vectors; None where the file is another."""
    if is_binary(path):
        return first_line(path)[1]
    lines = [line.replace("\t", " ").rstrip(" ") for line in islice(read_lines(path, LONGEST), FIRST)]
    said = header(lines[0])[1]
    widths = {num_numbers(line.split(" ")) for line in (lines if said is None else lines[1:])}
    width = widths.pop() if len(widths) == 1 else 0
    return width if width >= FEWEST and said in (None, width) else None


def is_binary(path: Path) -> bool:
    """Whether there are bytes behind a first line of two numbers that no text has."""
    with reading(path), open_bytes(path) as file:
        head = file.peek(PIECE)[:PIECE]
        return HEADER.match(head) is not None and not CONTROLS.isdisjoint(head)


def binary_vectors(path: Path, dim: int | None) -> Iterator[Line]:
    """Up to the end of the file, or to a vector that is cut off. Some programs write a newline before each word but the
    first."""
    with reading(path), open_bytes(path) as file:
        num_words, width = map(int, file.readline(LONGEST_WORD).split())
        check_width(f"{path}:1", dim, width)
        if 4 * width > LONGEST:
            raise UserError(f"{path}:1: vectors of {width:,} numbers are none of words; {SEE}")
        for number in range(1, num_words + 1):
            word = read_word(file, f"{path}: word {number}")
            numbers = np.frombuffer(data, dtype="<f4") if len(data := file.read(4 * width)) == 4 * width else None
            if numbers is None:
                return
            yield Line(word, numbers, width, f"{path}: word {number}")


def read_word(file: BinaryIO, where: str) -> str:
    """The bytes up to the next space."""
    word = bytearray()
    while (byte := file.read(1)) not in (b" ", b""):
        word += byte
        if len(word) > LONGEST_WORD:
            raise UserError(f"{where} has more than {LONGEST_WORD:,} bytes; {SEE}")
    return word.lstrip(b"\n").decode("utf-8", "replace")


def first_line(path: Path) -> tuple[int | None, int | None]:
    """What the first line tells."""
    if not is_binary(path):
        return header(next(read_lines(path, LONGEST)))
    with reading(path), open_bytes(path) as file:
        return header(file.readline(LONGEST_WORD).decode().strip())


def header(line: str) -> tuple[int | None, int | None]:
    """The number of words and the width that a first line of two numbers tells; None where it is no such line."""
    fields = line.replace("\t", " ").rstrip(" ").split(" ")
    if len(fields) == 2 and all(field.isascii() and field.isdigit() for field in fields):
        return int(fields[0]), int(fields[1])
    return None, None


def word_end(line: str, width: int, where: str) -> int:
    """Where the word ends on a line that has not a space before each number and no other: the word has some too, or the
    line is wrong."""
    fields = line.split(" ")
    numbers = num_numbers(fields)
    if numbers != width:
        raise UserError(
            f"{where}: expected a word and {counted(width, 'number')}, as the first line has it, found"
            f" {counted(numbers, 'number')}"
        )
    return len(" ".join(fields[:-width]))


def num_numbers(fields: Sequence[str]) -> int:
    """How many stand at the end of a line; the first field is a word, or its beginning."""
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
        raise UserError(f"{where}: {shown(wrong)} is no number; {RULE}") from None
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
            f"{where}: vectors of {width} numbers, and {dim} are wanted; name another file, or set the width to {width}"
        )
