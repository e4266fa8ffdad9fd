"""The length of a text and its hash, which can be computed while the text is read for another purpose."""

import hashlib
from collections.abc import Iterable
from typing import NamedTuple, Protocol


class MarkedText(Protocol):
    """A stretch of a text. Where a document begins or ends with it, `mark` has bytes that never occur in UTF-8."""

    @property
    def text(self) -> str: ...

    @property
    def mark(self) -> bytes: ...


class Extent(NamedTuple):
    """The number of characters of a text, and its SHA-256, which does not depend on the names of its files."""

    num_characters: int
    digest: str


class ExtentCounter:
    """Computes an extent stretch by stretch."""

    def __init__(self) -> None:
        self.num_characters = 0
        self.sha256 = hashlib.sha256()

    def add(self, stretch: MarkedText) -> None:
        self.num_characters += len(stretch.text)
        self.sha256.update(stretch.text.encode() + stretch.mark)

    def extent(self) -> Extent:
        return Extent(self.num_characters, self.sha256.hexdigest())


def extent_of(stretches: Iterable[MarkedText]) -> Extent:
    counter = ExtentCounter()
    for stretch in stretches:
        counter.add(stretch)
    return counter.extent()
