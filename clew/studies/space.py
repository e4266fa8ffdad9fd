"""The search space: ranges and choices of settings. Knows no search library, and trains nothing.

model.dim=64..512                     whole numbers, if the field takes whole numbers
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
from clew.core.wording import either
from clew.recipes.grid import different, expand, split_values
from clew.recipes.resolving import config_of
from clew.runs.config import Config
from clew.runs.settings.fields import fields_of
from clew.runs.settings.keywords import keyword_path, leaf_settings, plain_value
from clew.runs.settings.values import parse_value
from clew.training.run import check_training

NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
RANGE = re.compile(rf"\s*({NUMBER})\s*\.\.\s*({NUMBER})\s*(?::\s*({NUMBER})\s*)?")
LOG_FROM = 10
"""A range is searched on a log scale if its higher end is at least this many times its lower end."""
PYTHON_SPACE = "{'training.learning_rate': (1e-4, 1e-2), 'model.cell': ['lstm', 'gru']}"
DIGITS = 4
"""Significant digits of a sampled number. A fifth digit would make commands longer and change no result."""


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`; with a `step`, only `low` plus multiples of it."""

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
        """The number of values."""
        if self.step is None and not self.is_whole:
            return math.inf
        # Rounded, because (0.3 - 0.1) / 0.1 is slightly below 2. `high` is a value of the range.
        return round((self.high - self.low) / (self.step or 1)) + 1

    @property
    def about(self) -> str:
        kind = "whole numbers" if self.is_whole else "numbers"
        scale = f"in steps of {self.step:g}" if self.step is not None else f"{'log' if self.is_log else 'linear'} scale"
        return f"{self.field}: {kind} from {self.low:g} to {self.high:g}, {scale}"

    def spelt(self, value: Any) -> str:
        """Write a value as a setting."""
        if self.is_whole:
            return str(int(value))
        if self.step is not None:
            return repr(float(f"{value:.10g}"))
        return repr(min(max(float(f"{value:.{DIGITS}g}"), self.low), self.high))


@dataclass(frozen=True)
class Choices:
    """A list of values, each written as a setting."""

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
    """A recipe, the settings that all trials share, and the searched settings."""

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
        if not all(isinstance(axis.field, str) for axis in axes):
            raise TypeError("the field of an axis is a string")
        return cls(content["recipe"], tuple(content["fixed"]), tuple(axes))

    def settings(self, values: Mapping[str, Any]) -> dict[str, str]:
        """Return the searched settings of a trial, by field."""
        return {axis.field: axis.spelt(values[axis.field]) for axis in self.axes}


def is_range(text: str) -> bool:
    return RANGE.fullmatch(text) is not None


def read_space(recipe: str, assignments: Sequence[str]) -> tuple[Space, Config]:
    """Parse the space of a search, and return it with the config of one trial. All errors are raised here, before the
    first trial."""
    if len(split_values(recipe)) > 1:
        raise UserError(f"a search takes one recipe, and {recipe!r} names several; start one search for each")
    parts = [(field.strip(), text) for field, _, text in (assignment.partition("=") for assignment in assignments)]
    searched = {field: text for field, text in parts if is_range(text) or len(split_values(text)) > 1}
    for field in searched:
        if (times := sum(field == other for other, _ in parts)) > 1:
            raise UserError(
                f"{field} is set {times} times, and one of them is searched; set one range or one list of values"
            )
    if not searched:
        examples = either(
            f"add some to the dict of the space, such as {PYTHON_SPACE}",
            "add some, such as training.learning_rate=1e-4..1e-2 model.dim=64..512 model.cell=lstm,gru",
        )
        raise UserError(f"a search needs settings with a range or several values, but there are none; {examples}")
    fixed = [assignment for assignment, (field, _) in zip(assignments, parts, strict=True) if field not in searched]
    choices = {
        field: Choices(field, tuple(different(f"{field}={text}", split_values(text))))
        for field, text in searched.items()
        if not is_range(text)
    }
    first = {field: axis.values[0] for field, axis in choices.items()}
    ends = {field: parse_range(field, text) for field, text in searched.items() if field not in choices}
    first |= {field: number_text(low) for field, (low, _, _) in ends.items()}

    def config(**changed: str) -> Config:
        config = config_of(recipe, [*fixed, *(f"{field}={text}" for field, text in {**first, **changed}.items())])
        check_training(config.training)
        return config

    defaults = fields_of(config_of(recipe, [*fixed, *(f"{field}={axis.values[0]}" for field, axis in choices.items())]))
    for field in ends:
        if isinstance(value := defaults.get(field), str | bool | list | dict):
            raise UserError(
                f"{field}={searched[field]} is a range, but the values of {field} are not numbers (it is"
                f" {shown(value)}); write its values separated by commas"
            )
    axes: list[Axis] = []
    for field in searched:
        if field in choices:
            for value in choices[field].values:
                config(**{field: value})
            axes.append(choices[field])
        else:
            low, high, step = ends[field]
            config(**{field: number_text(high)})
            has_whole_ends = has_no_fraction(low) and has_no_fraction(high)
            axes.append(
                build_range(
                    field, low, high, step, has_whole_ends and not accepts(config, field, high - Decimal("0.5"))
                )
            )
    return Space(expand(recipe, [])[0].recipe, tuple(fixed), tuple(axes)), config()


def parse_range(field: str, text: str) -> tuple[Decimal, Decimal, Decimal | None]:
    """Parse a range into its exact ends and its step."""
    matched = RANGE.fullmatch(text)
    assert matched is not None
    low, high, step = (None if part is None else Decimal(part) for part in matched.groups())
    assert low is not None and high is not None
    if high < low:
        raise UserError(f"{field}={text} starts at its higher end; write {field}={matched[2]}..{matched[1]}")
    if high == low:
        raise UserError(f"{field}={text} is a range of one value; write {field}={matched[1]}, or another end")
    if step is not None and not 0 < step <= high - low:
        raise UserError(
            f"{field}={text}: the step ({matched[3]}) must be above 0 and at most the width of the range ({high - low})"
        )
    return low, high, step


def build_range(field: str, low: Decimal, high: Decimal, step: Decimal | None, is_whole: bool) -> Range:
    if step is not None:
        if is_whole and not has_no_fraction(step):
            raise UserError(f"{field} takes whole numbers, but a step of {step} leads to others; use a whole step")
        high = low + math.floor(float((high - low) / step) + 1e-9) * step
    return Range(field, float(low), float(high), None if step is None else float(step), is_whole)


def accepts(config: Any, field: str, value: Decimal) -> bool:
    """Whether a config with this value of a field is valid."""
    try:
        config(**{field: number_text(value)})
    except UserError:
        return False
    return True


def has_no_fraction(number: Decimal) -> bool:
    return number == number.to_integral_value()


def number_text(number: Decimal) -> str:
    """Write a number as a setting: a whole number without a fraction."""
    return (
        str(int(number))
        if has_no_fraction(number) and "." not in str(number) and "E" not in str(number).upper()
        else repr(float(number))
    )


def space_assignments(space: Mapping[str, Any]) -> list[str]:
    """Write a Python search space as assignments: (low, high) and (low, high, step) are ranges, a list has choices, a
    string is as on the command line. Names are `model.dim` or `model__dim`; a dict has the fields of a section."""
    if not isinstance(space, Mapping) or not all(isinstance(name, str) for name in space):
        raise UserError(
            f"the space of a search must be a dict of ranges and choices by field, such as {PYTHON_SPACE}, not"
            f" {shown(space)}"
        )
    fields = [
        (".".join(path), leaf)
        for name, value in space.items()
        for path, leaf in leaf_settings(keyword_path(name.replace(".", "__")), value)
    ]
    return [f"{field}={axis_text(field, value)}" for field, value in fields]


def axis_text(field: str, value: Any) -> str:
    """Write a range or a list of choices as on the command line."""
    if isinstance(value, str):
        return value
    if isinstance(value, tuple):
        parts = plain_value(value, field)
        if len(parts) not in (2, 3) or not all(map(is_number, parts)):
            raise UserError(
                f"{field}: a range must be (low, high) or (low, high, step), of finite numbers, not {shown(value)}; for"
                " choices, pass a list"
            )
        low, high, *step = map(json.dumps, parts)
        return f"{low}..{high}{':' if step else ''}{''.join(step)}"
    if isinstance(value, list):
        if len(value) < 2:
            raise UserError(
                f"{field}: a list of choices must have at least two, not {shown(value)}; pass one value as a setting"
            )
        return ",".join(choice_text(plain_value(choice, field)) for choice in value)
    raise UserError(
        f"{field}: a search takes (low, high), a list of choices, or a string as on the command line, not"
        f" {shown(value)}"
    )


def choice_text(value: Any) -> str:
    """Write one choice, in quotes if it would otherwise be parsed as something else."""
    is_plain = (
        isinstance(value, str)
        and parse_value(value) == value
        and split_values(value) == [value.strip()]
        and value != ""
    )
    return str(value) if is_plain else json.dumps(value)
