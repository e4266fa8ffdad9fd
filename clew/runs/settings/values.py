"""Parse settings as users write them: `section.field=value` and YAML files. The values are plain JSON types."""

import json
import os
import re
import shlex
from pathlib import Path
from typing import Any, TypeVar

import yaml
from yaml.constructor import ConstructorError

from clew.core.errors import UserError, named, shown
from clew.core.files import read_text

V = TypeVar("V")

DEEPEST = 20
"""Maximum nesting of lists and mappings; a stack of parts with options needs three levels."""

YAML = "tag:yaml.org,2002:"
TAGS = [YAML + kind for kind in ("null", "bool", "int", "float", "str", "seq", "map")]


class PlainLoader(yaml.SafeLoader):
    """YAML's safe loader, restricted to what JSON can express: no tags, dates, aliases (which can expand without
    bound) or keys that are not strings. Duplicate keys are refused, and 1e-3 is a number."""

    yaml_constructors = {tag: yaml.SafeLoader.yaml_constructors[tag] for tag in (*TAGS, None)}
    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in known if tag in TAGS]
        for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise ConstructorError(None, None, "aliases are not supported; write the value out", mark)
        return super().compose_node(parent, index)

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError):
            kind = node.tag.rpartition(":")[2]
            raise ConstructorError(
                None, None, f"{shown(node.value)} cannot be read as {kind}", node.start_mark
            ) from None

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        if not isinstance(node, yaml.MappingNode):
            raise ConstructorError(None, None, f"{shown(node.value)} cannot be read as map", node.start_mark)
        mapping: dict[str, Any] = {}
        for name_node, value_node in node.value:
            name = self.construct_object(name_node, deep=True)
            if not isinstance(name, str):
                raise ConstructorError(None, None, f"a name is a text, not {shown(name)}", name_node.start_mark)
            if name in mapping:
                raise ConstructorError(None, None, f"{named(name)} is given twice", name_node.start_mark)
            mapping[name] = self.construct_object(value_node, deep=deep)
        return mapping


PlainLoader.add_implicit_resolver(
    YAML + "float", re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def parse_assignment(assignment: str) -> tuple[list[str], Any]:
    """Parse `model.dim=256` to (["model", "dim"], 256). Values are JSON, or YAML lists and mappings, else strings."""
    name, equals, text = assignment.partition("=")
    path = name.strip().split(".")
    if not equals or not all(path) or len(path) > DEEPEST:
        is_file = not equals and os.path.isfile(assignment)
        remedy = f"; to train on this file, write {shlex.quote(f'data.train={assignment}')}" if is_file else ""
        raise UserError(
            f"a setting is section.field=value, such as training.steps=500, not {shown(assignment)}{remedy}"
        )
    return path, parse_value(text)


def parse_value(text: str) -> Any:
    return check_depth(_parsed(text), shown(text))


def _parsed(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=lambda name: name)
    except json.JSONDecodeError:
        pass
    except (ValueError, RecursionError):  # more digits or deeper nesting than Python can read
        raise UserError(
            f"{shown(text)} is too large a number, or nested more than {DEEPEST} levels deep; no setting takes that"
        ) from None
    if text[:1] in "[{" and text:
        try:
            return yaml.load(text, PlainLoader)
        except (yaml.YAMLError, RecursionError) as error:
            rule = "starts like a list or a mapping but is not one; write it as [a, b] or {name: value}"
            raise UserError(f"{shown(text)} {rule} ({reason(error)})") from None
    return text


def read_yaml(path: Path) -> dict[str, Any]:
    """Read settings from a YAML file that names the recipe they override. YAML tags are never obeyed."""
    try:
        loaded = yaml.load(read_text(path), PlainLoader)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}; give a readable YAML file") from None
    except (UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark is not None else str(path)
        raise UserError(f"{where}: this is not valid YAML: {reason(error)}") from None
    if not isinstance(loaded, dict) or not isinstance(loaded.get("recipe"), str):
        raise UserError(
            f"{path}: a run's YAML file needs a line `recipe: NAME` and sections below it; `clew recipes NAME` prints"
            " one"
        )
    check_depth(loaded, str(path))
    return loaded


def reason(error: Exception) -> str:
    """Return PyYAML's description of an error, without the position and the advice for programmers."""
    if isinstance(error, UnicodeDecodeError):
        return f"byte 0x{error.object[error.start]:02x} at offset {error.start} is not UTF-8"
    if isinstance(error, RecursionError):
        return f"it is nested more than {DEEPEST} levels deep"
    if isinstance(error, yaml.reader.ReaderError):
        return f"character {error.position + 1} is U+{error.character:04X}, which is not allowed in text"
    return str(getattr(error, "problem", None) or error)[:120]


def check_depth(value: V, what: str, left: int = DEEPEST) -> V:
    """Return the value; refuse it if it is nested more than DEEPEST levels deep."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if inner and not left:
        raise UserError(f"{what} is nested more than {DEEPEST} levels deep; no setting takes that")
    for part in inner:
        check_depth(part, what, left - 1)
    return value
