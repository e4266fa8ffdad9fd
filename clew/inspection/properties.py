"""Properties of a text, one value per character, which a cell of a character model may track (Karpathy et al. 2015).

Each is the value after the character has been read: `inside_quotes` is true from the opening mark up to, but excluding,
the closing one. Code is scanned for strings, comments and brackets, but never parsed or run, so any text has all
properties.
"""

import re
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

QUOTES = re.compile(r"\n\s*\n|[\"\u201c\u201d\u201e\u00ab\u00bb]")
OPENING, CLOSING = "\u201c\u201e\u00ab", "\u201d\u00bb"
PARENTHESES = re.compile(r"\n\s*\n|[()]")
SENTENCE = re.compile(r"[.!?](?=\s)|\n\s*\n")
STRING = (
    r"""[rbuf]{0,2}(?:"{3}(?:[^\\]|\\.)*?(?:"{3}|\Z)|'{3}(?:[^\\]|\\.)*?(?:'{3}|\Z)"""
    r"""|"(?:[^\\"\n]|\\.)*"?|'(?:[^\\'\n]|\\.)*'?)"""
)
TOKEN = re.compile(
    rf"(?P<string>{STRING})|(?P<comment>\#[^\n]*)|(?P<name>\w+)|(?P<open>[(\[{{])|(?P<close>[)\]}}])|(?P<colon>:)|(?P<line>\n)|[^\s\w]",
    re.DOTALL | re.IGNORECASE,
)


class Property(NamedTuple):
    """`find(text)` returns an array with one boolean or number per character.

    `kind` is `text` for any text, `code` for code, or `character` if the character alone determines the value, so
    nothing must be remembered.
    """

    about: str
    find: Callable[[str], np.ndarray]
    kind: Literal["text", "code", "character"] = "text"


def since(text: str, is_start: np.ndarray) -> np.ndarray:
    """Count characters since the last start, 0 at the first one after it; the beginning of the text is a start."""
    places = np.arange(len(text))
    begins = np.maximum.accumulate(np.where(is_start, places + 1, 0)) if len(text) else places
    before = np.concatenate([[0], begins[:-1]]) if len(text) else places
    return (places - before).astype(np.float64)


def characters(text: str, holds: Callable[[str], bool]) -> np.ndarray:
    kinds = {character: holds(character) for character in set(text)}
    return np.fromiter((kinds[character] for character in text), bool, len(text))


def line_position(text: str) -> np.ndarray:
    return since(text, characters(text, "\n".__eq__))


def word_position(text: str) -> np.ndarray:
    return since(text, characters(text, str.isspace))


def sentence_position(text: str) -> np.ndarray:
    ends = np.zeros(len(text), bool)
    ends[[match.end() - 1 for match in SENTENCE.finditer(text)]] = True
    return since(text, ends)


def inside_quotes(text: str) -> np.ndarray:
    """Whether each character is between double quotation marks of any form. An empty line closes them, since some are
    never closed."""
    changes, inside = [], False
    for match in QUOTES.finditer(text):
        mark = match[0]
        inside = not inside if mark == '"' else mark in OPENING if mark in OPENING + CLOSING else False
        changes.append((match.end() - 1, float(inside)))
    return filled(len(text), changes) > 0


def inside_parentheses(text: str) -> np.ndarray:
    """Whether each character is between parentheses. An empty line closes them all."""
    changes, depth = [], 0
    for match in PARENTHESES.finditer(text):
        depth = depth + 1 if match[0] == "(" else max(depth - 1, 0) if match[0] == ")" else 0
        changes.append((match.end() - 1, float(depth)))
    return filled(len(text), changes) > 0


def indentation(text: str) -> np.ndarray:
    """Count the columns of white space at the start of the line that have been read."""
    changes = []
    for match in re.finditer(r"^[ \t]*", text, re.MULTILINE):
        changes.append((match.start(), 0.0))
        changes += [(place, place - match.start() + 1.0) for place in range(match.start(), match.end())]
    return filled(len(text), [(place, value) for place, value in changes if place < len(text)])


class Code(NamedTuple):
    """Result of a lexical scan of Python code."""

    strings: np.ndarray
    comments: np.ndarray
    depth: np.ndarray
    conditions: np.ndarray


def scan(text: str) -> Code:
    strings, comments, conditions = (np.zeros(len(text), bool) for _ in range(3))
    changes: list[tuple[int, float]] = []
    depth, at_start, condition, around = 0, True, None, 0
    for match in TOKEN.finditer(text):
        start, stop, kind = match.start(), match.end(), match.lastgroup
        if kind == "string":
            strings[start : stop - 1] = True
        elif kind == "comment":
            comments[start:stop] = True
        elif kind in ("open", "close"):
            depth = depth + 1 if kind == "open" else max(depth - 1, 0)
            changes.append((start, float(depth)))
        elif kind == "name" and at_start and match[0] in ("if", "elif"):
            condition, around = stop, depth
        if condition is not None and ((kind == "colon" and depth <= around) or (kind == "line" and depth <= around)):
            conditions[condition:start] = True
            condition = None
        at_start = kind == "line" and depth == 0
    if condition is not None:
        conditions[condition:] = True
    return Code(strings, comments, filled(len(text), changes), conditions)


CODE_LINE = re.compile(r"\s*(?:def \w+\(|class \w+[:(]|import \w|from [\w.]+ import |return\b|elif .*:$|if .*:$)")


def is_code(text: str) -> bool:
    """Whether at least one in fifty lines can only be Python."""
    lines = [line for line in text.splitlines() if line.strip()]
    return bool(lines) and sum(CODE_LINE.match(line) is not None for line in lines) >= len(lines) / 50


def filled(length: int, changes: list[tuple[int, float]]) -> np.ndarray:
    """Fill an array with the value of the last change before each place; 0 at first."""
    if not changes:
        return np.zeros(length)
    at, values = (np.array(part) for part in zip(*changes, strict=True))
    last = np.searchsorted(at, np.arange(length), side="right") - 1
    return np.where(last >= 0, values[last], 0.0)


PROPERTIES: dict[str, Property] = {
    "line_position": Property("characters since the line began", line_position),
    "word_position": Property("characters since the last white space", word_position),
    "sentence_position": Property("characters since the sentence began", sentence_position),
    "inside_quotes": Property("between double quotation marks", inside_quotes),
    "inside_parentheses": Property("between parentheses", inside_parentheses),
    "bracket_depth": Property(
        "brackets that are open in code, strings and comments left out", lambda text: scan(text).depth, "code"
    ),
    "indentation": Property("white space at the line's beginning", indentation, "code"),
    "inside_comment": Property("in a comment of Python", lambda text: scan(text).comments, "code"),
    "inside_string": Property("in a string of Python", lambda text: scan(text).strings, "code"),
    "inside_condition": Property(
        "between if or elif and its colon, in Python", lambda text: scan(text).conditions, "code"
    ),
    "capital": Property("a capital letter", lambda text: characters(text, str.isupper), "character"),
    "digit": Property("a digit", lambda text: characters(text, str.isdigit), "character"),
    "space": Property("white space", lambda text: characters(text, str.isspace), "character"),
}
