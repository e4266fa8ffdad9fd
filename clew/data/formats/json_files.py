"""JSON lines, with one object per line, and JSON arrays of objects. Dots name a field inside another:
`translation.en`."""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from clew.core.errors import UserError, command
from clew.data.described import Field, Row, text_field
from clew.data.format import Format, Reader
from clew.data.lines import ended_lines, open_decoded, read_lines
from clew.data.notes import Notes
from clew.data.records import Column, Record, check_found

KINDS = {
    dict: "an object",
    list: "a list",
    str: "a string",
    bool: "true or false",
    type(None): "null",
    int: "a number",
    float: "a number",
}
NUMBERS_FOR_NAMES = (
    'a list of numbers; write the names that they stand for, such as ["B-PER", "O"] for [1, 0], or quote the numbers'
)

GAP = re.compile(r"[\s,]*")
ARRAY = re.compile(r"\s*\[\s*\{")
PIECE, LONGEST = 2**16, 2**24
"""Numbers of characters: of an array that are read at once, and of the longest value in it."""
MOST_COLUMNS = 100
"""The largest number of columns that are described."""


def read_jsonl(
    path: Path, *, header: bool | None = None, wanted: Collection[Column] = (), notes: Notes | None = None
) -> Iterator[Record]:
    """Yield the objects as records, with nested fields unchanged; `value_at` finds those by dotted names. A file that
    begins with an array is read as one."""
    notes = Notes() if notes is None else notes
    name = str(path)
    has_records = False
    for number, line in enumerate(read_lines(path), start=1):
        if number == 1 and line.lstrip().startswith("["):
            yield from read_json_array(path, notes=notes)
            return
        if not line.strip():
            notes.skip("empty line", f"{name}:{number}")
            continue
        try:
            values = json.loads(line)
        except (ValueError, RecursionError) as error:
            if number == 1 and line.strip() == "{":
                raise UserError(
                    f"{path}: JSON lines have one object per line, but this value spans several lines; write one record"
                    f" per line, e.g. jq -c . {command(path)}"
                ) from None
            notes.fault("bad JSON", f"{name}:{number}", f"this is not JSON: {why(error)}")
            continue
        if isinstance(values, dict):
            has_records = True
            yield Record(values, name, number)
        else:
            notes.fault("no object", f"{name}:{number}", f"expected an object ({{...}}), found {KINDS[type(values)]}")
    check_found(has_records, path, False, notes)


def read_json_array(
    path: Path, *, header: bool | None = None, wanted: Collection[Column] = (), notes: Notes | None = None
) -> Iterator[Record]:
    """Yield the objects of an array as records, each with the line where it begins. One object at a time is in memory,
    not the whole file."""
    notes = Notes() if notes is None else notes
    name, has_records = str(path), False
    for line, value in array_values(path):
        if isinstance(value, dict):
            has_records = True
            yield Record(value, name, line)
        else:
            notes.fault("no object", f"{name}:{line}", f"expected an object ({{...}}), found {KINDS[type(value)]}")
    check_found(has_records, path, False, notes)


def array_values(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield the line and the value of every item of an array, reading the file in pieces."""
    decoder, size = json.JSONDecoder(), PIECE
    with open_decoded(path) as stream:
        text = stream.read(size)
        place = text.find("[") + 1
        line = 1 + text.count("\n", 0, place)
        while True:
            start = GAP.match(text, place).end()  # type: ignore[union-attr]
            line += text.count("\n", place, start)
            if text.startswith("]", start):
                return
            try:
                value, place = decoder.raw_decode(text, start)
            except (ValueError, RecursionError) as error:
                piece = stream.read(size) if len(text) - start < LONGEST else ""
                if not piece:
                    raise UserError(f"{path}:{line}: this is not JSON: {why(error)}") from None
                text, place = text[start:] + piece, 0
                # each piece starts the parsing of an object again, so a large object gets larger pieces
                size = min(2 * size, LONGEST)
                continue
            yield line, value
            line += text.count("\n", start, place)
            size = PIECE


def is_json_array(lines: Sequence[str]) -> bool:
    """Whether a file begins with an array whose first value is an object."""
    return ARRAY.match("\n".join(lines)) is not None


def value_at(values: Mapping[str, Any], name: str) -> Any:
    """Return a field by its name, or a nested field by its dotted name. Raises KeyError if there is none."""
    if name in values:
        return values[name]
    value: Any = values
    for part in name.split("."):
        if not isinstance(value, dict) or part not in value:
            raise KeyError(name)
        value = value[part]
    return value


def dotted_names(values: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Return the dotted names of all fields that have no fields themselves."""
    names: list[str] = []
    for key, value in values.items():
        names += dotted_names(value, f"{prefix}{key}.") if isinstance(value, dict) and value else [f"{prefix}{key}"]
    return names


def is_list_of_numbers(value: Any) -> bool:
    return (
        isinstance(value, (list, tuple))
        and len(value) > 0
        and all(isinstance(number, (int, float)) for number in value)
    )


def read_json_file(path: Path) -> Any:
    """Read a file that is one JSON value."""
    try:
        return json.loads("".join(ended_lines(path)))
    except (ValueError, RecursionError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{path}: this is not JSON: {why(error)}") from None


def why(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg[0].lower()}{error.msg[1:]} at column {error.colno}"
    return "it is nested too deeply" if isinstance(error, RecursionError) else "a number in it is too long"


def is_json(lines: Sequence[str]) -> bool:
    first = next((line for line in lines if line.strip()), "")
    try:
        return isinstance(json.loads(first), dict)
    except (ValueError, RecursionError):
        return False


def json_field(value: Any) -> Field:
    if isinstance(value, str):
        return text_field(value)
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return Field(" ".join(value), len(value), value, is_list=True)
    return text_field("" if value is None else json.dumps(value, ensure_ascii=False))


def list_rows(read: Reader) -> Callable[[Path, bool | None, Notes], Iterator[Row]]:
    """Return the `rows` of a table whose fields may be lists, or have fields themselves."""

    def rows(path: Path, header: bool | None, notes: Notes) -> Iterator[Row]:
        for record in read(path, header=header, wanted=(), notes=notes):
            names = dotted_names(record.values)[:MOST_COLUMNS]
            yield record.place, {name: json_field(value_at(record.values, name)) for name in names}

    return rows


JSONL = Format(
    about="JSON lines",
    rows=list_rows(read_jsonl),
    extensions=(".jsonl", ".ndjson", ".json"),
    fits=is_json,
    records=read_jsonl,
    has_lists=True,
)
JSON_ARRAY = Format(
    about="a JSON array",
    rows=list_rows(read_json_array),
    extensions=(".json",),
    fits=is_json_array,
    records=read_json_array,
    has_lists=True,
)
