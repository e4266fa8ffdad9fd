"""Read values of records as texts, words and labels; any other value is a fault."""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from clew.data.formats.json_files import KINDS, NUMBERS_FOR_NAMES, is_list_of_numbers


class Faulty(Exception):
    """A record that cannot become an example: the reason under which it is counted, and the message."""

    def __init__(self, reason: str, sentence: str):
        super().__init__(sentence)
        self.reason = reason


def as_words(value: Any, role: str) -> tuple[str, ...]:
    if is_list_of_numbers(value):
        raise Faulty("wrong kind", f"data.{role} takes a list of strings, found {NUMBERS_FOR_NAMES}")
    if not isinstance(value, (list, tuple)) or not all(isinstance(word, str) for word in value):
        raise Faulty("wrong kind", f"data.{role} takes a list of strings, found {value_kind(value)}")
    if not value or "" in value:
        raise Faulty("empty field", f"the field for data.{role} is empty, or a string in it is")
    return tuple(check_unicode(word, role) for word in value)


def as_text(values: Mapping[str, Any], role: str) -> str:
    """Return a text, which may not be empty; a number becomes its digits."""
    value = values[role]
    if isinstance(value, str):
        if not value or value.isspace():
            raise Faulty("empty field", f"the field for data.{role} is empty")
        return value if value.isascii() else check_unicode(value, role)
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":  # not a date, which `item` may turn into a number
        value = value.item()
    if value is None or (isinstance(value, float) and math.isnan(value)):  # pandas writes NaN for a missing value
        raise Faulty("empty field", f"the field for data.{role} is null")
    if isinstance(value, (int, float)):
        return json.dumps(value)
    raise Faulty("wrong kind", f"data.{role} takes a text, found {value_kind(value)}")


def as_labels(value: Any, separator: str | None) -> tuple[str, ...]:
    if isinstance(value, (list, tuple)):
        return tuple(as_text({"label": label}, "label").strip() for label in value)
    if separator is not None and isinstance(value, str):
        return tuple(label.strip() for label in value.split(separator) if label.strip())
    return (as_text({"label": value}, "label").strip(),)


def as_captions(value: Any) -> tuple[str, ...]:
    """Return one caption or a list of them as a tuple, none empty, without surrounding white space."""
    if value is None or not value:
        raise Faulty("no caption", "the field for data.caption is empty")
    return tuple(
        as_text({"caption": caption}, "caption").strip()
        for caption in (value if isinstance(value, (list, tuple)) else [value])
    )


def check_unicode(text: str, role: str) -> str:
    r"""Return a text, if UTF-8 can encode it; JSON's \ud800 is half a character."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Faulty(
            "half a character", f"the field for data.{role} has half a character, {text[error.start]!r}"
        ) from None
    return text


def value_kind(value: Any) -> str:
    return KINDS.get(type(value), type(value).__name__)
