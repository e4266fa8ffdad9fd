"""Lines of a file or of standard input, some at a time, so that a verb can stand in a pipe."""

import io
import os
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

MOST = 256
"""Lines that are handed on together, where so many are there."""
READ = 2**16


def some_lines(name: str | None) -> Iterator[list[str]]:
    """The lines of a file; of standard input, where there is no name or it is `-`, those that are there, without waiting for more."""
    if name is None or name == "-":
        for arrived in arriving_lines():
            for start in range(0, len(arrived), MOST):
                yield arrived[start : start + MOST]
        return
    from clew.data.lines import read_lines

    found = read_lines(Path(name))
    while some := list(islice(found, MOST)):
        yield some


def arriving_lines() -> Iterator[list[str]]:
    """The whole lines of every piece that arrives; the last line need not end."""
    rest, number = b"", 0
    for piece in pieces():
        *whole, rest = (rest + piece).split(b"\n")
        yield [decoded(line, number) for number, line in enumerate(whole, start=number + 1)]
        number += len(whole)
    if rest:
        yield [decoded(rest, number + 1)]


def pieces() -> Iterator[bytes]:
    """What is there of standard input, as soon as it is."""
    try:
        descriptor = sys.stdin.fileno()
    except io.UnsupportedOperation:  # a text in its place, all of which is there
        yield sys.stdin.read().encode("utf-8", "surrogateescape")
        return
    while piece := os.read(descriptor, READ):
        yield piece


def decoded(line: bytes, number: int) -> str:
    from clew.core.errors import UserError

    try:
        text = line.removesuffix(b"\r").decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"standard input, line {number}: byte {error.start + 1} is not UTF-8; convert it first") from None
    if "\0" in text:
        raise UserError(f"standard input, line {number}: a NUL character, so this is no plain text")
    return text
