"""Streams of texts from Python: a function that returns an iterator, an object that can be iterated repeatedly, or one
with a length and items by number, such as a Dataset."""

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
"""Items per block, if items can be read by number."""
MOST_COUNTED = 2**25
"""The most characters that are read from an iterable to measure its length."""
PREFIX = "iterable:"

GIVEN: dict[str, Any] = {}
"""The iterables of this process, by their names in a config. A config is JSON and cannot contain a Python object, so
the caller passes the iterable again to resume a run."""


@dataclass(frozen=True, eq=False)
class Items:
    """The items from `start` up to, but not including, `stop` of an object with a length."""

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
    """All items of an iterable, in order."""

    begin: Callable[[], Iterable[Any]]
    field: str
    length: float = 0.0
    """In characters; infinite if the end was not reached."""
    size: int = 1

    def documents(self) -> Iterator[str]:
        for number, item in enumerate(self.begin(), start=1):
            yield from text_of_item(item, self.field, number)

    def characters(self) -> float:
        return self.length


def register_iterable(data: Any, part: str) -> str:
    """Register an iterable for the run that is about to begin; return the name by which `blocks_of_iterable` finds
    it."""
    check_repeatable(data)
    name = f"{PREFIX}{part}"
    GIVEN[name] = data
    return name


def check_repeatable(data: Any) -> None:
    if not callable(data) and isinstance(data, Iterator):
        raise UserError(
            f"data= is a {type(data).__name__}, which can be read only once, but a stream is read again in every epoch"
            " and after every resume; pass the function that makes it (data=pages instead of data=pages()), or omit"
            " data.stream to store the texts on disk"
        )
    if isinstance(data, (str, Mapping)) or not (callable(data) or isinstance(data, Iterable) or has_items(data)):
        raise UserError(
            f"data= is {shown(data)}, but a stream must be a function that returns an iterator of texts, or an object"
            " that can be iterated repeatedly; pass one of these, or omit data.stream"
        )


def has_items(data: Any) -> bool:
    """Return whether all items can be read by number. Torch's iterable datasets have these methods too, but no items by
    number."""
    has_labels = hasattr(data, "iloc")  # a pandas Series reads items by the labels of its index
    has_methods = hasattr(data, "__len__") and hasattr(data, "__getitem__")
    return has_methods and not has_labels and not isinstance(data, IterableDataset)


def blocks_of_iterable(name: str, field: str) -> list[Block]:
    if name not in GIVEN:
        raise UserError(
            f"data.train={name} stands for an iterable passed from Python, which this process does not have; call"
            " clew.train with the same data= again (with resume=True to continue), or evaluate the run on a file"
        )
    data = GIVEN[name]
    begin = iterator_function(data)
    if begin is None:
        return [Items(data, start, min(start + ITEMS, len(data)), field) for start in range(0, len(data), ITEMS)]
    first, again = begin(), begin()
    if not isinstance(first, Iterable) or isinstance(first, str):
        raise UserError(
            f"data= is a function that returned {shown(first)}, but it must return an iterator of texts; let it yield"
            " them"
        )
    if first is again and isinstance(first, Iterator):
        raise UserError(
            "data= is a function that returns the same iterator at every call, but a stream is read again in every"
            " epoch and after every resume; return a new iterator from each call, as a function with `yield` does"
        )
    length = 0
    for document in Pass(begin, field).documents():
        length += len(document)
        if length > MOST_COUNTED:
            return [Pass(begin, field, inf)]
    return [Pass(begin, field, float(length))]


def iterator_function(data: Any) -> Callable[[], Iterable[Any]] | None:
    """Return a function that starts a new iteration; None if items can be read by number."""
    if callable(data) and not has_items(data):
        begin: Callable[[], Iterable[Any]] = data
        return begin
    if any(hasattr(data, method) for method in ("iter_rows", "itertuples", "to_batches")):  # a table
        return lambda: rows_in_memory(data) or ()
    return None if has_items(data) else lambda: iter(data)


def text_of_item(item: Any, field: str, number: int) -> Iterator[str]:
    """Yield the documents of an item, which is a text or a row with a text field."""
    text = text_in(item, field, f"example {number} of data=") if isinstance(item, Mapping) else item
    if not isinstance(text, str):
        raise UserError(
            f"data= must be a stream of texts, or of rows with a field '{field}', but example {number} is {shown(item)}"
        )
    check_is_text(text, f"text in example {number} of data=")
    return documents_in(text)
