"""Frozen config sections, and parts chosen by name from a table.

A part is a name, or a name with options: `gru`, or `{name: gru, bias: false}`. The options are the keyword-only
arguments of the table's member, so a new cell needs no config class.
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
    """A section of a config: frozen, without extra fields, and with strict types (a string is never a number)."""

    model_config = ConfigDict(frozen=True, extra="forbid", serialize_by_alias=True, **STRICT)

    @field_validator("*", mode="before")
    @classmethod
    def _fits(cls, value: Any) -> Any:
        if bounds := bounds_missed(value):
            raise PydanticCustomError("out_of_bounds", f"takes a number between {bounds}")
        return value


def field_names(section: type[Section]) -> dict[str, str]:
    """Map the config name of every field to its attribute; they differ if the name is a Python keyword, such as
    `from`."""
    return {info.alias or name: name for name, info in section.model_fields.items()}


class TaskSection(Section):
    """Base of all task sections; `name` is the task's name in TASKS."""

    name: str = ""


class ModelSection(Section):
    """Base of all model sections; `family` is the body's name in MODELS."""

    family: str = ""


def bounds_missed(value: Any) -> str:
    """Return the bounds of a 64-bit integer or 32-bit float as text if a number is outside, else "". Infinity is
    reported elsewhere."""
    if isinstance(value, int) and not -(2**63) < value < 2**63:
        return "-2^63 and 2^63"
    return "-1e38 and 1e38" if isinstance(value, float) and 1e38 < abs(value) < math.inf else ""


Part = str | dict[str, Any]


def part_name(part: Part) -> str:
    return part if isinstance(part, str) else part["name"]


def part_options(part: Part) -> dict[str, Any]:
    return {} if isinstance(part, str) else {name: value for name, value in part.items() if name != "name"}


def build_part(kind: str, part: Part, table: Mapping[str, Callable[..., Any]], *arguments: Any, **defaults: Any) -> Any:
    """Build the member of a table that `part` names, with the caller's arguments and the user's options, which take
    precedence."""
    check_part(kind, part, table)
    options = part_options(part)
    try:
        return table[part_name(part)](*arguments, **{**defaults, **options})
    except UserError:
        raise
    except (ValueError, TypeError, RuntimeError, ZeroDivisionError) as error:
        if not options:
            raise
        raise UserError(
            f"{kind} '{part_name(part)}' cannot be built with {shown(options)}: {str(error)[:120]}"
        ) from error


def check_part(kind: str, part: Any, table: Mapping[str, Callable[..., Any]]) -> Part:
    """Check that a part's name is in the table and its options are accepted there. Return the part, or raise a
    UserError with what is known."""
    formed = check_form(kind, part)
    name = part_name(formed)
    if name not in table:
        raise unknown(kind, name, table)
    allowed = options_of(table[name])
    for option, value in part_options(formed).items():
        if option not in allowed:
            known = ", ".join(allowed) or "none"
            raise UserError(
                f"{kind} '{name}' has no option {named(option)}{did_you_mean(option, allowed)} its options: {known}"
            )
        _check_type(f"{kind} option '{name}.{option}'", value, allowed[option])
    return formed


def check_form(kind: str, part: Any) -> Part:
    """Check that a part is a name or a name with options, regardless of its table. Return the part."""
    if not isinstance(part, (str, dict)) or (isinstance(part, dict) and not isinstance(part.get("name"), str)):
        raise UserError(f"{kind} takes a name, or a name with options ({{name: ..., option: ...}}), not {shown(part)}")
    return part


def options_of(member: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the keyword-only parameters of a table's member, by name."""
    parameters = inspect.signature(member).parameters.values()
    return {p.name: p for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}


def one_of(kind: str, table: Mapping[str, Callable[..., Any]]) -> BeforeValidator:
    """Validate a field `Annotated[Part, one_of("cell", CELLS)]`. The table is read when a config is, so a user's
    entries count."""
    return BeforeValidator(lambda part: check_part(kind, part, table))


def part_of(kind: str) -> BeforeValidator:
    """Validate a field whose table is in a higher package: `Annotated[Part, part_of("optimiser")]`."""
    return BeforeValidator(lambda part: check_form(kind, part))


def warmup_steps(warmup: int | float, steps: int) -> int:
    """Return the warm-up in whole steps: an integer is a number of steps, a float below 1 is a share of `steps`,
    rounded down.

    The share is read as a decimal, so that 0.29 of 100 steps are 29.
    """
    if isinstance(warmup, int):
        return warmup
    if not 0 <= warmup < 1:
        raise UserError(
            f"the schedule's warmup ({warmup}) must be a whole number of steps, or a share of them that is at least 0"
            " and below 1; set training.schedule.warmup"
        )
    return math.floor(Decimal(repr(float(warmup))) * steps)


def _check_type(what: str, value: Any, parameter: inspect.Parameter) -> None:
    """Check an option's type strictly: booleans are not numbers, numbers not strings. Other annotations are left to the
    constructor."""
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
