"""What a search varies: ranges and choices of settings. Knows no library that searches, and trains nothing.

model.dim=64..512                     whole numbers, where the field takes whole numbers
model.dim=64..512:64                  64, 128, ..., 512
training.learning_rate=1e-4..1e-2     numbers on a log scale, because the ends are a factor of 10 or more apart
model.cell=lstm,gru                   choices
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any

from clew.core.errors import UserError, shown
from clew.core.numbers import is_number
from clew.recipes.grid import different, expand, split_values
from clew.recipes.resolving import config_of
from clew.runs.config import Config
from clew.runs.settings.fields import fields_of
from clew.runs.settings.keywords import leaves, path_of, plain_value
from clew.runs.settings.values import parse_value
from clew.training.run import check_training

NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
RANGE = re.compile(rf"\s*({NUMBER})\s*\.\.\s*({NUMBER})\s*(?::\s*({NUMBER})\s*)?")
LOG_FROM = 10
"""A range whose ends are so many times apart is searched on a log scale."""
DIGITS = 4
"""Significant digits of a number that is tried: a fifth changes no result, and makes commands long."""


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`; with a `step` only those that are whole steps above `low`."""

    field: str
    low: float
    high: float
    step: float | None = None
    is_whole: bool = False

    @property
    def is_log(self) -> bool:
        return self.step is None and self.low > 0 and self.high / self.low >= LOG_FROM

    @property
    def count(self) -> float:
        """How many values there are."""
        if self.step is None and not self.is_whole:
            return math.inf
        return (self.high - self.low) // (self.step or 1) + 1

    @property
    def about(self) -> str:
        kind = "whole numbers" if self.is_whole else "numbers"
        scale = f"in steps of {self.step:g}" if self.step is not None else f"{'log' if self.is_log else 'linear'} scale"
        return f"{self.field}: {kind} from {self.low:g} to {self.high:g}, {scale}"

    def spelt(self, value: Any) -> str:
        """A value as a setting has it."""
        if self.is_whole:
            return str(int(value))
        if self.step is not None:
            return repr(float(f"{value:.10g}"))
        return repr(min(max(float(f"{value:.{DIGITS}g}"), self.low), self.high))


@dataclass(frozen=True)
class Choices:
    """Some values, each written as a setting has it."""

    field: str
    values: tuple[str, ...]

    @property
    def count(self) -> float:
        return len(self.values)

    @property
    def about(self) -> str:
        return f"{self.field}: one of {', '.join(self.values)}"

    def spelt(self, value: Any) -> str:
        return str(value)


Axis = Range | Choices


@dataclass(frozen=True)
class Space:
    """A recipe, the settings that all trials share, and those that are searched."""

    recipe: str
    fixed: tuple[str, ...]
    axes: tuple[Axis, ...]

    @property
    def combinations(self) -> float:
        return math.prod(axis.count for axis in self.axes)

    def to_json(self) -> dict[str, Any]:
        return {"recipe": self.recipe, "fixed": list(self.fixed), "axes": [asdict(axis) for axis in self.axes]}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Space":
        axes = [
            Choices(each["field"], tuple(each["values"])) if "values" in each else Range(**each)
            for each in content["axes"]
        ]
        return cls(content["recipe"], tuple(content["fixed"]), tuple(axes))

    def settings(self, values: Mapping[str, Any]) -> dict[str, str]:
        """The searched settings of a trial, by field."""
        return {axis.field: axis.spelt(values[axis.field]) for axis in self.axes}


def is_range(text: str) -> bool:
    return RANGE.fullmatch(text) is not None


def read_space(recipe: str, assignments: Sequence[str]) -> tuple[Space, Config]:
    """The space that words describe, and the config of a trial in it. Every mistake is refused here, before the first
    trial."""
    if len(split_values(recipe)) > 1:
        raise UserError(f"a search is of one recipe, and {recipe!r} names several; search each of them by itself")
    parts = [(field.strip(), text) for field, _, text in (assignment.partition("=") for assignment in assignments)]
    searched = {field: text for field, text in parts if is_range(text) or len(split_values(text)) > 1}
    for field in searched:
        if (times := sum(field == other for other, _ in parts)) > 1:
            raise UserError(
                f"{field} is given {times} times, once to be searched; give one range or one list of values"
            )
    if not searched:
        raise UserError(
            "a search varies settings, and none of these has a range or several values; "
            "give some, such as training.learning_rate=1e-4..1e-2 model.dim=64..512 model.cell=lstm,gru"
        )
    fixed = [assignment for assignment, (field, _) in zip(assignments, parts, strict=True) if field not in searched]
    choices = {
        field: Choices(field, tuple(different(f"{field}={text}", split_values(text))))
        for field, text in searched.items()
        if not is_range(text)
    }
    first = {field: axis.values[0] for field, axis in choices.items()}
    ends = {field: ends_of(field, text) for field, text in searched.items() if field not in choices}
    first |= {field: written(low) for field, (low, _, _) in ends.items()}

    def config(**changed: str) -> Config:
        found = config_of(recipe, [*fixed, *(f"{field}={text}" for field, text in {**first, **changed}.items())])
        check_training(found.training)
        return found

    without = fields_of(config_of(recipe, [*fixed, *(f"{field}={axis.values[0]}" for field, axis in choices.items())]))
    for field in ends:
        if isinstance(value := without.get(field), str | bool | list | dict):
            raise UserError(
                f"{field}={searched[field]} is a range, and {field} takes no number (it is {shown(value)}); "
                "give its values with commas between them"
            )
    axes: list[Axis] = []
    for field in searched:
        if field in choices:
            for value in choices[field].values:
                config(**{field: value})
            axes.append(choices[field])
        else:
            low, high, step = ends[field]
            config(**{field: written(high)})
            has_whole_ends = has_no_fraction(low) and has_no_fraction(high)
            axes.append(
                range_of(field, low, high, step, has_whole_ends and not takes(config, field, high - Decimal("0.5")))
            )
    return Space(expand(recipe, [])[0].recipe, tuple(fixed), tuple(axes)), config()


def ends_of(field: str, text: str) -> tuple[Decimal, Decimal, Decimal | None]:
    """The ends of a range and its step, as exact as they are written."""
    matched = RANGE.fullmatch(text)
    assert matched is not None
    low, high, step = (None if part is None else Decimal(part) for part in matched.groups())
    assert low is not None and high is not None
    if high < low:
        raise UserError(
            f"{field}={text} goes from the higher end to the lower; write {field}={matched[2]}..{matched[1]}"
        )
    if high == low:
        raise UserError(f"{field}={text} is a range of one value; write {field}={matched[1]}, or give another end")
    if step is not None and not 0 < step <= high - low:
        raise UserError(
            f"{field}={text}: the step ({matched[3]}) must be above 0 and at most the width of the range ({high - low})"
        )
    return low, high, step


def range_of(field: str, low: Decimal, high: Decimal, step: Decimal | None, is_whole: bool) -> Range:
    if step is not None:
        if is_whole and not has_no_fraction(step):
            raise UserError(f"{field} takes whole numbers, and a step of {step} leads to others; give a whole step")
        high = low + math.floor(float((high - low) / step) + 1e-9) * step
    return Range(field, float(low), float(high), None if step is None else float(step), is_whole)


def takes(config: Any, field: str, value: Decimal) -> bool:
    """Whether a field accepts a number that is not whole."""
    try:
        config(**{field: written(value)})
    except UserError:
        return False
    return True


def has_no_fraction(number: Decimal) -> bool:
    return number == number.to_integral_value()


def written(number: Decimal) -> str:
    """A number as a setting has it: whole where it is whole."""
    return (
        str(int(number))
        if has_no_fraction(number) and "." not in str(number) and "E" not in str(number).upper()
        else repr(float(number))
    )


def words_of(space: Mapping[str, Any]) -> list[str]:
    """Settings from Python: (low, high) and (low, high, step) are ranges, a list has choices, a text is as on the
    command line. Names are `model.dim` or `model__dim`; a dict has the fields of a section."""
    if not isinstance(space, Mapping) or not all(isinstance(name, str) for name in space):
        raise UserError(
            "the space of a search is a dict of ranges and choices by field, such as {'training.learning_rate':"
            f" (1e-4, 1e-2), 'model.cell': ['lstm', 'gru']}}, not {shown(space)}"
        )
    fields = [
        (".".join(path), leaf)
        for name, value in space.items()
        for path, leaf in leaves(path_of(name.replace(".", "__")), value)
    ]
    return [f"{field}={word_of(field, value)}" for field, value in fields]


def word_of(field: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, tuple):
        parts = plain_value(value, field)
        if len(parts) not in (2, 3) or not all(map(is_number, parts)):
            raise UserError(
                f"{field}: a range is (low, high) or (low, high, step), of finite numbers, not {shown(value)}; a list"
                " has choices"
            )
        low, high, *step = map(json.dumps, parts)
        return f"{low}..{high}{':' if step else ''}{''.join(step)}"
    if isinstance(value, list):
        if len(value) < 2:
            raise UserError(
                f"{field}: a list of choices has at least two, not {shown(value)}; give one value as a setting"
            )
        return ",".join(choice_word(plain_value(choice, field)) for choice in value)
    raise UserError(
        f"{field}: a search takes (low, high), a list of choices, or a text as on the command line, not {shown(value)}"
    )


def choice_word(value: Any) -> str:
    """One choice, quoted where it would otherwise be read as something else."""
    is_plain = (
        isinstance(value, str)
        and parse_value(value) == value
        and split_values(value) == [value.strip()]
        and value != ""
    )
    return str(value) if is_plain else json.dumps(value)
