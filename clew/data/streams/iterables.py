"""Texts that a program gives from Python, streamed as they are: a function that makes an iterator, an object that can
be iterated again and again, or one with a length and items by number, such as a Dataset."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from torch.utils.data import IterableDataset

from clew.core.errors import UserError, shown
from clew.data.files.text_files import documents_in, text_in
from clew.data.formats.python_tables import rows_in_memory
from clew.data.streams.blocks import Block
from clew.text.tokenizer import check_is_text

ITEMS = 1000
"""Items by number that make a block."""
MOST_COUNTED = 2**25
"""Characters that are read of an iterable without a length to see whether it ends there."""
PREFIX = "iterable:"

GIVEN: dict[str, Any] = {}
"""What this process was given, by the name that a config has for it. A config is JSON, and an object of Python cannot
stand in it: who goes on with the run gives the object again."""


@dataclass(frozen=True, eq=False)
class Items:
    """The items from `start` to `stop` of what has a length."""

    data: Any
    start: int
    stop: int
    field: str

    @property
    def size(self) -> int:
        return self.stop - self.start

    def documents(self) -> Iterator[str]:
        for number in range(self.start, self.stop):
            yield from text_of_item(self.data[number], self.field, number + 1)

    def characters(self) -> float:
        return float(sum(map(len, self.documents())))


@dataclass(frozen=True, eq=False)
class Pass:
    """All that an iterable gives, in its order."""

    begin: Callable[[], Iterable[Any]]
    field: str
    length: float = 0.0
    """In characters; infinite where it was not read to its end."""
    size: int = 1

    def documents(self) -> Iterator[str]:
        for number, item in enumerate(self.begin(), start=1):
            yield from text_of_item(item, self.field, number)

    def characters(self) -> float:
        return self.length


def give(data: Any, part: str) -> str:
    """Keeps an iterable for the run that is about to begin; gives back the name by which `blocks_of_iterable` finds
    it."""
    check_repeatable(data)
    name = f"{PREFIX}{part}"
    GIVEN[name] = data
    return name


def check_repeatable(data: Any) -> None:
    if not callable(data) and isinstance(data, Iterator):
        raise UserError(
            f"data= is a {type(data).__name__}, which can be read once, and a stream is read again in every epoch and"
            " by every resume; give the function that makes it (data=pages, and not data=pages()), or leave"
            " data.stream out to have the texts kept on disk"
        )
    if isinstance(data, (str, Mapping)) or not (callable(data) or isinstance(data, Iterable) or has_items(data)):
        raise UserError(
            f"data= is {shown(data)}, and a stream is a function that gives an iterator of texts, or an object that can"
            " be iterated again and again; give one of them, or leave data.stream out"
        )


def has_items(data: Any) -> bool:
    """Whether a length and numbers lead to all items. Torch's iterable datasets have these methods too, and no items by
    number."""
    return not isinstance(data, IterableDataset) and hasattr(data, "__len__") and hasattr(data, "__getitem__")


def blocks_of_iterable(name: str, field: str) -> list[Block]:
    if name not in GIVEN:
        raise UserError(
            f"data.train={name} stands for an iterable that a program gave, and this process was given none; "
            "call clew.train with the same data= again (resume=True goes on), or evaluate the run on a file"
        )
    data = GIVEN[name]
    begin = beginner(data)
    if begin is None:
        return [Items(data, start, min(start + ITEMS, len(data)), field) for start in range(0, len(data), ITEMS)]
    first, again = begin(), begin()
    if not isinstance(first, Iterable) or isinstance(first, str):
        raise UserError(
            f"data= is a function that gave {shown(first)}, and has to give an iterator of texts; let it yield them"
        )
    if first is again and isinstance(first, Iterator):
        raise UserError(
            "data= is a function that gives the same iterator at every call, and a stream is read again in every epoch"
            " and by every resume; let each call make a new one, as a function with yield in it does"
        )
    length = 0
    for document in Pass(begin, field).documents():
        length += len(document)
        if length > MOST_COUNTED:
            return [Pass(begin, field, inf)]
    return [Pass(begin, field, float(length))]


def beginner(data: Any) -> Callable[[], Iterable[Any]] | None:
    """What begins to read an iterable; None for one whose items have numbers."""
    if callable(data) and not has_items(data):
        begin: Callable[[], Iterable[Any]] = data
        return begin
    if any(hasattr(data, method) for method in ("iter_rows", "itertuples", "to_batches")):  # a table
        return lambda: rows_in_memory(data) or ()
    return None if has_items(data) else lambda: iter(data)


def text_of_item(item: Any, field: str, number: int) -> Iterator[str]:
    """The documents in an item: a text, or the field of a row that has it."""
    text = text_in(item, field, f"example {number} of data=") if isinstance(item, Mapping) else item
    if not isinstance(text, str):
        raise UserError(
            f"data= is a stream of texts, or of rows with a field '{field}', and example {number} is {shown(item)}"
        )
    check_is_text(text, f"text in example {number} of data=")
    return documents_in(text)
