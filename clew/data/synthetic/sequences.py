"""Sequence tasks with known answers: a source line and a target line of symbols separated by spaces. The same seed
gives the same lines.

Members of SYNTHETIC are functions `(random, length) -> (source, target)`; `length` is the length of the sequence, or of
the gap.
"""

import random
from collections.abc import Callable
from typing import NamedTuple

from clew.core.errors import UserError, unknown
from clew.core.memory import check_memory

LETTERS = "abcdefghijklmnopqrst"
FILLER = "."


class Line(NamedTuple):
    source: str
    target: str


def copy(random: random.Random, length: int) -> Line:
    """Copy the source: b a c -> b a c."""
    symbols = " ".join(random.choices(LETTERS, k=length))
    return Line(symbols, symbols)


def reverse(random: random.Random, length: int) -> Line:
    """Reverse the source: b a c -> c a b."""
    symbols = random.choices(LETTERS, k=length)
    return Line(" ".join(symbols), " ".join(reversed(symbols)))


def sort(random: random.Random, length: int) -> Line:
    """Sort distinct symbols: b a c -> a b c."""
    symbols = random.sample(LETTERS, k=min(length, len(LETTERS)))
    return Line(" ".join(symbols), " ".join(sorted(symbols)))


def addition(random: random.Random, length: int) -> Line:
    """Add two numbers, digit by digit: 4 8 + 7 -> 5 5."""
    first, second = (random.randrange(10 ** random.randint(1, length)) for _ in range(2))
    return Line(" ".join([*str(first), "+", *str(second)]), " ".join(str(first + second)))


def recall(random: random.Random, length: int) -> Line:
    """Recall the digit of one of three symbols after a gap: a 7 c 2 d 4 . . . c -> 2."""
    keys = random.sample(LETTERS, k=3)
    digits = [str(random.randrange(10)) for _ in keys]
    pairs = [symbol for pair in zip(keys, digits, strict=True) for symbol in pair]
    query = random.randrange(len(keys))
    return Line(" ".join([*pairs, *[FILLER] * length, keys[query]]), digits[query])


def synthetic_lines(name: str, size: int, seed: int, shortest: int, longest: int) -> list[Line]:
    """Generate `size` lines of lengths from `shortest` to `longest`, both included."""
    if name not in SYNTHETIC:
        raise unknown("synthetic corpus", name, SYNTHETIC)
    if not 1 <= shortest <= longest:
        raise UserError(
            f"lengths go from data.shortest ({shortest}) to data.longest ({longest}); the first must be at least 1 and"
            " at most the second"
        )
    check_memory(
        size * (200 + 4 * longest),
        f"{size:,} generated lines of up to {longest:,} symbols",
        "lower data.size or data.longest",
    )
    draw = random.Random(f"{name} {seed}")
    return [SYNTHETIC[name](draw, draw.randint(shortest, longest)) for _ in range(size)]


def right_place(name: str, source: str, step: int) -> int | None:
    """Return the source position of the symbol at a step of the target, if it is certain: for copy, reverse and
    sort."""
    symbols = source.split()
    if step >= len(symbols):
        return None
    places = {
        "copy": list(range(len(symbols))),
        "reverse": list(reversed(range(len(symbols)))),
        "sort": sorted(range(len(symbols)), key=lambda place: symbols[place]),
    }
    return places[name][step] if name in places else None


SYNTHETIC: dict[str, Callable[[random.Random, int], Line]] = {
    "copy": copy,
    "reverse": reverse,
    "sort": sort,
    "addition": addition,
    "recall": recall,
}
