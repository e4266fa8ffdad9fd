"""Turn pydantic's validation errors into one-sentence messages with the full name of the field."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

from pydantic import ValidationError

from clew.core.config import Section, field_names
from clew.core.errors import UserError, did_you_mean, few_of, named, shown

S = TypeVar("S", bound=Section)

CHOICES = re.compile(r"str|int|list\[str\]|(?:literal|dict)\[.*")
"""Location parts that pydantic adds for a field with a union type."""


class MemberError(ValueError):
    """A validation error in a section whose class is chosen by name. It keeps the pydantic error, so that `explain` can
    say where the mistake is. `readers_of(field)` returns the tasks whose section of the same name has that field."""

    def __init__(
        self,
        error: ValidationError,
        section: type[Section],
        readers_of: Callable[[str], Sequence[str]] = lambda field: (),
    ):
        super().__init__(str(error))
        self.error = error
        self.section = section
        self.readers_of = readers_of


def read_section(kind: type[S], values: Mapping[str, Any], of: str = "", spell: Callable[[str], str] = str) -> S:
    """Build a section from plain Python or JSON values; a list is accepted for a tuple. A mistake raises a one-sentence
    UserError, which starts with `of`, the name of what the section belongs to. `spell` writes a field's name."""
    tuples = tuple_fields(kind)
    try:
        return kind(
            **{
                name: tuple(value) if name in tuples and isinstance(value, list) else value
                for name, value in values.items()
            }
        )
    except ValidationError as error:
        sentence = explain(error, kind, spell=spell)
        raise UserError(f"{of}: {sentence}" if of else sentence) from None


@cache
def tuple_fields(kind: type[Section]) -> frozenset[str]:
    """Return the names of the fields that take a tuple."""
    return frozenset(name for name, field in kind.model_fields.items() if takes_tuple(field.annotation))


def takes_tuple(annotation: Any) -> bool:
    kind = get_origin(annotation)
    return kind is tuple or (kind in (Union, UnionType) and any(map(takes_tuple, get_args(annotation))))


def explain(
    error: ValidationError,
    root: type[Section],
    prefix: str = "",
    readers_of: Callable[[str], Sequence[str]] = lambda field: (),
    meant_by: Callable[[str], str | None] = lambda name: None,
    spell: Callable[[str], str] = str,
) -> str:
    """Describe the first error that pydantic found, in one sentence with the field's full name. `meant_by` returns the
    config field that an unknown name stands for, or None."""
    first = error.errors(include_url=False)[0]
    location = [str(part) for part in first["loc"] if not isinstance(part, int) and not CHOICES.fullmatch(part)]
    name = (prefix + dotted(location)).strip(".")
    kind, value, context = first["type"], first.get("input"), first.get("ctx", {})
    if kind == "value_error":
        inner = context["error"]
        if isinstance(inner, MemberError):
            return explain(inner.error, inner.section, f"{name}.", inner.readers_of, meant_by)
        return f"{name}: {inner}" if name else str(inner)
    if kind == "extra_forbidden":
        section = _section_at(root, location[:-1])
        known = list(field_names(section)) if section is not None else []
        where = (prefix + dotted(location[:-1])).strip(".")
        readers = readers_of(location[-1])
        suggested = relative_name(where, meant_by(location[-1]), known)
        if readers:
            suggestion = f"; it is read by the task{'s' * (len(readers) > 1)} {few_of(readers)};"
        else:
            suggestion = f"; did you mean '{suggested}'?" if suggested else did_you_mean(location[-1], known)
        return (
            f"unknown field {named(location[-1])}{f' of {where}' if where else ''}{suggestion} known:"
            f" {few_of(list(known), 200) or 'none'}"
        )
    return f"{spell(name)} {_rule(kind, context, first['msg'])}, not {shown(value)}"


def relative_name(section: str, field: str | None, known: Sequence[str]) -> str | None:
    """Return a field's name relative to a section, or its full name if it belongs to another; None if the section has
    no such field."""
    inner = (field or "").removeprefix(f"{section}.")
    return field if inner == field else inner if inner.partition(".")[0] in known else None


def dotted(path: Sequence[str]) -> str:
    """Join a path to a field's full name, shortened if it is too long to be one of ours."""
    return named(".".join(path))[1:-1]


def _rule(kind: str, context: Mapping[str, Any], message: str) -> str:
    rules = {
        "int_type": "takes a whole number",
        "int_from_float": "takes a whole number",
        "float_type": "takes a number",
        "finite_number": "takes a finite number",
        "bool_type": "takes true or false",
        "string_type": "takes a text",
        "list_type": "takes a list",
        "tuple_type": "takes a list",
        "greater_than_equal": "must be at least {ge:g}",
        "greater_than": "must be above {gt:g}",
        "less_than_equal": "must be at most {le:g}",
        "less_than": "must be below {lt:g}",
        "literal_error": "must be one of {expected}",
        "model_type": "takes fields",
        "model_attributes_type": "takes fields",
        "missing": "must be given",
    }
    return rules[kind].format(**context) if kind in rules else message[0].lower() + message[1:]


def _section_at(root: type[Section], path: list[str]) -> type[Section] | None:
    section: Any = root
    for name in path:
        if not (isinstance(section, type) and issubclass(section, Section) and name in field_names(section)):
            return None
        info = section.model_fields[field_names(section)[name]]
        section = info.annotation
        if get_origin(section) is not None:
            section = next(
                (part for part in get_args(section) if isinstance(part, type) and issubclass(part, Section)), None
            )
    return section if isinstance(section, type) and issubclass(section, Section) else None
