"""Converts values to bytes and back: strings and numbers in nested tuples, NamedTuples and lists. Knows no file.

A packed row has three 32-bit counts, the integers (32 bits each), the floats (64 bits each) and the text in UTF-8. The
integers also encode how the value is nested: each value is a code and its operands. For example, a list of ids is a
code, its length and the ids.
"""

import sys
from array import array
from itertools import accumulate, pairwise
from struct import Struct
from typing import Any

import numpy as np

NONE, FALSE, TRUE, INTEGER, NUMBER, STRING, ARRAY = range(7)
LISTS = (7, 8, 9, 10)
"""Codes of a list of mixed values, of integers, of floats and of strings."""
TUPLES = (11, 12, 13, 14)
CLASSES = 16
"""Codes from this one on are NamedTuple classes."""
VALUES, INTEGERS, NUMBERS, STRINGS = range(4)
COUNTS = Struct("3i")
HEADER = COUNTS.size


class Unpackable(Exception):
    """A value that contains anything but strings and numbers, such as a picture that is opened lazily."""


class Packer:
    """Packs values. `classes` lists the NamedTuple classes in them, in the order of their codes."""

    def __init__(self) -> None:
        self.classes: list[type] = []
        self.codes: dict[type, int] = {}

    def pack(self, value: Any) -> bytes:
        integers: list[int] = []
        numbers: list[float] = []
        texts: list[str] = []
        try:
            self.add(value, integers, numbers, texts)
            text = "".join(texts).encode("utf-8", "surrogatepass")
            counts = COUNTS.pack(len(integers), len(numbers), len(text))
            return counts + array("i", integers).tobytes() + array("d", numbers).tobytes() + text
        except (OverflowError, RecursionError) as error:
            raise Unpackable(str(error)) from None

    def add(self, value: Any, integers: list[int], numbers: list[float], texts: list[str]) -> None:
        kind = type(value)
        if kind is str:
            integers += (STRING, len(value))
            texts.append(value)
        elif kind is int:
            integers += (INTEGER, value)
        elif kind is list or kind is tuple:
            codes, kinds = LISTS if kind is list else TUPLES, set(map(type, value))
            if kinds <= {int}:
                integers += (codes[INTEGERS], len(value), *value)
            elif kinds == {str}:
                integers += (codes[STRINGS], len(value), *map(len, value))
                texts += value
            elif kinds == {float}:
                integers += (codes[NUMBERS], len(value))
                numbers += value
            else:
                integers += (codes[VALUES], len(value))
                for each in value:
                    self.add(each, integers, numbers, texts)
        elif value is None:
            integers.append(NONE)
        elif kind is bool:
            integers.append(TRUE if value else FALSE)
        elif kind is float:
            integers.append(NUMBER)
            numbers.append(value)
        elif issubclass(kind, tuple) and hasattr(kind, "_fields"):
            integers.append(self.code(kind))
            for each in value:
                self.add(each, integers, numbers, texts)
        elif kind is np.ndarray and value.dtype.kind in "iub":
            name = value.dtype.str.encode()
            integers += (ARRAY, len(name), *name, value.ndim, *value.shape, *value.ravel().tolist())
        else:
            raise Unpackable(kind.__name__)

    def code(self, kind: type) -> int:
        if kind not in self.codes:
            name = class_name(kind)
            if class_named(name) is not kind:
                raise Unpackable(name)
            self.codes[kind] = CLASSES + len(self.classes)
            self.classes.append(kind)
        return self.codes[kind]


class Unpacker:
    """Unpacks values that were packed with the same classes."""

    def __init__(self, classes: list[type]):
        self.classes = [(kind, range(len(kind._fields))) for kind in classes]  # type: ignore[attr-defined]

    def unpack(self, row: bytes) -> Any:
        num_integers, num_numbers, _ = COUNTS.unpack_from(row)
        numbers_at = HEADER + 4 * num_integers
        text_at = numbers_at + 8 * num_numbers
        text = row[text_at:].decode("utf-8", "surrogatepass")
        integers = array("i", row[HEADER:numbers_at]).tolist()
        return RowReader(
            self.classes, integers, array("d", row[numbers_at:text_at]) if num_numbers else None, text
        ).value()


class RowReader:
    """A reader of one packed row, with its current positions."""

    __slots__ = ("character", "classes", "integers", "number", "numbers", "place", "text")

    def __init__(self, classes: list[tuple[type, range]], integers: list[int], numbers: Any, text: str):
        self.classes, self.integers, self.numbers, self.text = classes, integers, numbers, text
        self.place = self.number = self.character = 0

    def value(self) -> Any:
        place = self.place
        code = self.integers[place]
        if code == STRING:
            start = self.character
            self.place, self.character = place + 2, start + self.integers[place + 1]
            return self.text[start : self.character]
        if code >= CLASSES:
            self.place = place + 1
            kind, fields = self.classes[code - CLASSES]
            return tuple.__new__(kind, [self.value() for _ in fields])
        if code == INTEGER:
            self.place = place + 2
            return self.integers[place + 1]
        self.place = place + 1
        if code in LISTS:
            return self.items(code - LISTS[0])
        if code in TUPLES:
            return tuple(self.items(code - TUPLES[0]))
        if code == NUMBER:
            return self.next_numbers(1)[0]
        if code == ARRAY:
            return self.array()
        assert code in (NONE, FALSE, TRUE), f"no value has the code {code}"
        return None if code == NONE else code == TRUE

    def items(self, kind: int) -> list[Any]:
        (count,) = self.next_integers(1)
        if kind == INTEGERS:
            return self.next_integers(count)
        if kind == NUMBERS:
            return self.next_numbers(count)
        if kind == STRINGS:
            edges = list(accumulate(self.next_integers(count), initial=self.character))
            self.character = edges[-1]
            return [self.text[start:stop] for start, stop in pairwise(edges)]
        return [self.value() for _ in range(count)]

    def array(self) -> np.ndarray:
        (size,) = self.next_integers(1)
        dtype = np.dtype(bytes(self.next_integers(size)).decode())
        (axes,) = self.next_integers(1)
        shape = self.next_integers(axes)
        return np.array(self.next_integers(int(np.prod(shape, dtype=np.int64))), dtype).reshape(shape)

    def next_integers(self, count: int) -> list[int]:
        start, self.place = self.place, self.place + count
        return self.integers[start : self.place]

    def next_numbers(self, count: int) -> list[float]:
        start, self.number = self.number, self.number + count
        values: list[float] = self.numbers[start : self.number].tolist() if count else []
        return values


def class_name(kind: Any) -> str:
    """Return the name of a NamedTuple class: its module, its qualified name and its fields, whose order rows follow."""
    return f"{kind.__module__}:{kind.__qualname__}:{','.join(kind._fields)}"


def class_named(name: str) -> type | None:
    """Return the NamedTuple class of a name, if it is loaded and has the same fields."""
    module, path, fields = name.split(":")
    value: Any = sys.modules.get(module)
    for part in path.split("."):
        value = getattr(value, part, None)
    is_tuple = isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields")
    return value if is_tuple and ",".join(value._fields) == fields else None
