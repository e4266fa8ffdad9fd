"""How long a text is, and its hash, taken while something else is done with it."""

import hashlib
from collections.abc import Iterable
from typing import NamedTuple, Protocol


class Marked(Protocol):
    """A stretch of a text, and bytes that are none of UTF-8 where a document begins or ends with it."""

    @property
    def text(self) -> str: ...

    @property
    def mark(self) -> bytes: ...


class Extent(NamedTuple):
    """How many characters a text has, and its SHA-256, which does not depend on the names of its files."""

    num_characters: int
    digest: str


class Measuring:
    """An extent that is taken stretch by stretch."""

    def __init__(self) -> None:
        self.num_characters = 0
        self.sha256 = hashlib.sha256()

    def add(self, stretch: Marked) -> None:
        self.num_characters += len(stretch.text)
        self.sha256.update(stretch.text.encode() + stretch.mark)

    def extent(self) -> Extent:
        return Extent(self.num_characters, self.sha256.hexdigest())


def extent_of(stretches: Iterable[Marked]) -> Extent:
    measuring = Measuring()
    for stretch in stretches:
        measuring.add(stretch)
    return measuring.extent()
