"""Frozen sections of a config, and parts chosen by name from a table.

A part is a name, or that name with options: `gru`, or `{name: gru, bias: false}`. Its options are the keyword-only arguments of the
table's member, so a new cell needs no config class.
"""

import inspect
import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PydanticSchemaGenerationError,
    TypeAdapter,
    ValidationError,
    field_validator,
)
from pydantic_core import PydanticCustomError

from clew.core.errors import UserError, did_you_mean, named, shown, unknown

STRICT = ConfigDict(strict=True, allow_inf_nan=False)


class Section(BaseModel):
    """A part of a config: frozen, with no field but its own, and strict about types (a string is never a number)."""

    model_config = ConfigDict(frozen=True, extra="forbid", serialize_by_alias=True, **STRICT)

    @field_validator("*", mode="before")
    @classmethod
    def _fits(cls, value: Any) -> Any:
        if bounds := bounds_missed(value):
            raise PydanticCustomError("out_of_bounds", f"takes a number between {bounds}")
        return value


def field_names(section: type[Section]) -> dict[str, str]:
    """The attribute of every field by its name in a config; they differ where Python keeps that name for itself, as it does `from`."""
    return {info.alias or name: name for name, info in section.model_fields.items()}


class TaskSection(Section):
    """The base of every task's section: its `name` is the task's in TASKS."""

    name: str = ""


class ModelSection(Section):
    """The base of every body's section: its `family` is the body's in MODELS."""

    family: str = ""


def bounds_missed(value: Any) -> str:
    """The bounds of what a 64-bit integer or a 32-bit float can hold, where a number is outside them; infinity is told elsewhere."""
    if isinstance(value, int) and not -(2**63) < value < 2**63:
        return "-2^63 and 2^63"
    return "-1e38 and 1e38" if isinstance(value, float) and 1e38 < abs(value) < math.inf else ""


Part = str | dict[str, Any]


def part_name(part: Part) -> str:
    return part if isinstance(part, str) else part["name"]


def part_options(part: Part) -> dict[str, Any]:
    return {} if isinstance(part, str) else {name: value for name, value in part.items() if name != "name"}


def build_part(kind: str, part: Part, table: Mapping[str, Callable[..., Any]], *arguments: Any, **given: Any) -> Any:
    """The table's member that `part` names, built with the arguments the caller gives and the options the user gives, which come first."""
    check_part(kind, part, table)
    options = part_options(part)
    try:
        return table[part_name(part)](*arguments, **{**given, **options})
    except UserError:
        raise
    except (ValueError, TypeError, RuntimeError, ZeroDivisionError) as error:
        if not options:
            raise
        raise UserError(f"{kind} '{part_name(part)}' cannot be built with {shown(options)}: {str(error)[:120]}") from error


def check_part(kind: str, part: Any, table: Mapping[str, Callable[..., Any]]) -> Part:
    """The part itself, if its name is in the table and its options are that member's; else the sentence that says what is."""
    formed = check_form(kind, part)
    name = part_name(formed)
    if name not in table:
        raise unknown(kind, name, table)
    allowed = options_of(table[name])
    for option, value in part_options(formed).items():
        if option not in allowed:
            known = ", ".join(allowed) or "none"
            raise UserError(f"{kind} '{name}' has no option {named(option)}{did_you_mean(option, allowed)} its options: {known}")
        _check_type(f"{kind} option '{name}.{option}'", value, allowed[option])
    return formed


def check_form(kind: str, part: Any) -> Part:
    """The part itself, if it is a name, or a name with options, whatever table it is from."""
    if not isinstance(part, (str, dict)) or (isinstance(part, dict) and not isinstance(part.get("name"), str)):
        raise UserError(f"{kind} takes a name, or a name with options ({{name: ..., option: ...}}), not {shown(part)}")
    return part


def options_of(member: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The keyword-only arguments of a table's member, by name."""
    parameters = inspect.signature(member).parameters.values()
    return {p.name: p for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}


def one_of(kind: str, table: Mapping[str, Callable[..., Any]]) -> BeforeValidator:
    """For a field `Annotated[Part, one_of("cell", CELLS)]`; the table is looked at when a config is read, so a user's entries count."""
    return BeforeValidator(lambda part: check_part(kind, part, table))


def part_of(kind: str) -> BeforeValidator:
    """For a field whose table is known only further up: `Annotated[Part, part_of("optimiser")]`."""
    return BeforeValidator(lambda part: check_form(kind, part))


def warmup_steps(warmup: int | float, steps: int) -> int:
    """A warm-up in whole steps: a number of steps is itself, a share of `steps` (a float below 1) is rounded down.

    The share is taken as the decimal it is written as, so that 0.29 of 100 steps are 29.
    """
    if isinstance(warmup, int):
        return warmup
    if not 0 <= warmup < 1:
        raise UserError(
            f"the schedule's warmup ({warmup}) must be a whole number of steps, or a share of them that is at least 0 and below 1; "
            "set training.schedule.warmup"
        )
    return math.floor(Decimal(repr(float(warmup))) * steps)


def _check_type(what: str, value: Any, parameter: inspect.Parameter) -> None:
    """Booleans are never numbers, numbers never strings; an annotation that says nothing plain is left to the constructor."""
    annotation = parameter.annotation
    if bounds := bounds_missed(value):
        raise UserError(f"{what} takes a number between {bounds}, not {shown(value)}")
    if annotation is inspect.Parameter.empty or isinstance(annotation, str):
        return
    try:
        TypeAdapter(annotation, config=STRICT).validate_python(value)
    except PydanticSchemaGenerationError:
        return
    except ValidationError:
        kinds = [WORDS.get(kind, str(kind)) for kind in get_args(annotation) or (annotation,)]
        raise UserError(f"{what} takes {' or '.join(kinds)}, not {shown(value)}") from None


WORDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a text",
    type(None): "null",
    list[int]: "a list of whole numbers",
    list[str]: "a list of names",
}
