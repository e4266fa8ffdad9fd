"""Commas make a grid: every combination of the recipes and values they separate. Pure functions of words; nothing is
read or run.

shakespeare-lstm,shakespeare-gru seed=1,2     four combinations, the last field changing fastest
model.layers=[lstm, gru],[gru, gru]           two: a comma inside [..], {..} or double quotes is part of its value
data.train='"here, there.txt"'                one
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from clew.core.errors import UserError
from clew.runs.settings.values import parse_value

LONGEST_VALUE, LONGEST_NAME = 40, 100
CLOSING = {"[": "]", "{": "}"}


@dataclass(frozen=True)
class Combination:
    """One run of a grid: the arguments of `clew train`, and those of them that the grid chose."""

    recipe: str
    assignments: tuple[str, ...]
    chosen: tuple[tuple[str, str], ...]
    """The fields that vary over the grid, by their shortest unambiguous names, and their values in this run."""

    @property
    def name(self) -> str:
        """The folder's name, the same for the same combination: `ptb-lstm-small-cell=gru-seed=1`."""
        base = Path(self.recipe).stem if self.recipe.endswith((".yaml", ".yml")) else self.recipe
        parts = [f"{field}={plain(value)}" for field, value in self.chosen]
        return shortened("-".join([plain(base), *parts]), LONGEST_NAME)


def expand(recipe: str, assignments: Sequence[str]) -> list[Combination]:
    """Return every combination once, in order. Without a comma there is one, with unchanged arguments."""
    recipes = [
        str(parse_value(name)) if name.startswith('"') else name for name in different(recipe, split_values(recipe))
    ]
    parts = [assignment.partition("=") for assignment in assignments]
    fields = [field.strip() for field, _, _ in parts]
    axes = [
        different(assignment, split_values(text)) for assignment, (_, _, text) in zip(assignments, parts, strict=True)
    ]
    names = short_names([field for field, values in zip(fields, axes, strict=True) if len(values) > 1])
    for field in names:
        if (times := fields.count(field)) > 1:
            raise UserError(
                f"{field} is given {times} times, once with several values; give them all in one place, separated by"
                " commas"
            )
    combinations = []
    for name, *values in product(recipes, *axes):
        chosen = [(names[field], spelt(value)) for field, value in zip(fields, values, strict=True) if field in names]
        words = ["".join((field, equals, value)) for (field, equals, _), value in zip(parts, values, strict=True)]
        combinations.append(Combination(name, tuple(words), tuple(chosen)))
    return combinations


def different(whole: str, values: list[str]) -> list[str]:
    """Split a text into its distinct values at commas; a single value stays as written."""
    if len(values) == 1:
        return values
    if not all(value.strip() for value in values):
        raise UserError(
            f"{whole!r} has an empty value beside a comma; delete the comma, or put a value that contains commas into"
            " double quotes"
        )
    first: dict[str, str] = {}
    for value in values:
        first.setdefault(spelt(value), value.strip())
    return list(first.values())


def split_values(text: str) -> list[str]:
    """Split a text at commas outside [..], {..} and quotes. A quote opens only at the start of a value, and a single
    quote only inside brackets, so that apostrophes are letters."""
    values, start, closers, quote = [], 0, "", ""
    place = 0
    while place < len(text):
        character = text[place]
        if quote:
            place += character == "\\" and quote == '"'
            quote = "" if character == quote else quote
        elif character in "\"'" and (character == '"' or closers) and text[start:place].rstrip()[-1:] in ("", *"[{,:"):
            quote = character
        elif character in CLOSING:
            closers += CLOSING[character]
        elif closers and character == closers[-1]:
            closers = closers[:-1]
        elif character == "," and not closers:
            values.append(text[start:place])
            start = place + 1
        place += 1
    return [*values, text[start:]]


def spelt(value: str) -> str:
    """Return a value in clew's notation: 1e-3 and 0.001 are the same."""
    parsed: Any = parse_value(value.strip())
    return parsed if isinstance(parsed, str) else json.dumps(parsed, default=str)


def short_names(fields: Sequence[str]) -> dict[str, str]:
    """Shorten `model.cell` to `cell` if no other field has that last part."""
    ends = Counter(field.rpartition(".")[2] for field in set(fields))
    return {field: field.rpartition(".")[2] if ends[field.rpartition(".")[2]] == 1 else field for field in fields}


def plain(value: str) -> str:
    """Write a value with characters that are safe in file names and shells. A hash distinguishes values that would look
    the same."""
    name = re.sub(r"[^a-z0-9._+-]+", "_", value.lower()).strip("_").rstrip(".")
    if name == value:
        return shortened(name, LONGEST_VALUE)
    return f"{name[:LONGEST_VALUE]}-{digest(value)}".lstrip("-")


def shortened(name: str, longest: int) -> str:
    return name if len(name) <= longest else f"{name[: longest - 7]}-{digest(name)}"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:6]
