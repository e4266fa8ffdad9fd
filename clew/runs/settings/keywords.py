"""Settings in Python calls: `"model.dim=64"`, `model__dim=64` and `model={"dim": 64}`, freely mixed. Error messages
are rewritten in the same notation."""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from clew.core.errors import STRICT, UserError, did_you_mean, few_of, named, shortened, shown
from clew.core.files import examples_folder
from clew.runs.config import Config, every_field, meant_by
from clew.runs.settings.values import check_depth, parse_assignment

SECTIONS = tuple(name for name in Config.model_fields if name != "recipe")
"""Names that a keyword can start with; `seed` and `device` are complete settings."""


def settings_of(assignments: Sequence[str], keywords: Mapping[str, Any], arguments: Sequence[str] = ()) -> list[str]:
    """Return all settings as assignments, a part before its options. Refuse unknown sections and fields that are set
    twice; among `assignments` alone the last one wins, as on the command line. `arguments` are the parameters of the
    calling function, suggested for a misspelt keyword."""
    for assignment in assignments:
        if not isinstance(assignment, str):
            raise UserError(
                "a setting is a text such as 'training.steps=500', or a keyword such as training__steps=500, not"
                f" {shown(assignment)}"
            )
    fields = list(
        {
            path: (path, text, shown(text)) for text in assignments for path in [tuple(parse_assignment(text)[0])]
        }.values()
    )
    for keyword, value in keywords.items():
        path = keyword_path(keyword, arguments)
        place = f"{keyword}={{...}}" if isinstance(value, Mapping) else keyword
        fields += [
            (inner, f"{'.'.join(inner)}={as_json(leaf, keyword)}", place) for inner, leaf in leaf_settings(path, value)
        ]
    check_once(fields)
    return [text for _, text, _ in sorted(fields, key=lambda field: len(field[0]))]


def keyword_path(keyword: str, arguments: Sequence[str] = ()) -> tuple[str, ...]:
    """Split a keyword: `model__cell__nonlinearity` -> ("model", "cell", "nonlinearity")."""
    path = tuple(keyword.split("__"))
    if path[0] in SECTIONS and all(path):
        return path
    if near := get_close_matches(keyword, arguments, 1, cutoff=STRICT):
        raise UserError(f"unknown keyword {named(keyword)}; did you mean {near[0]}? a setting is section__field=value")
    field = meant_by(keyword) or meant_by(path[-1])
    fields = [field] if field else sorted(name for name in every_field() if name.rpartition(".")[2] == path[-1])[:3]
    meant = f"; did you mean {' or '.join(map(keyword_of, fields))}?" if fields else did_you_mean(path[0], SECTIONS)
    raise UserError(
        f"unknown keyword {named(keyword)}{meant} a setting is section__field=value, of the sections {few_of(SECTIONS)}"
    )


WHOLE = {("data", "label_map")}
"""Settings whose value is a dict with keys that the user chooses."""


def leaf_settings(path: tuple[str, ...], value: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the path and value of every field in a dict; a part with its options ({"name": "gru", ...}) is one
    value."""
    if not isinstance(value, Mapping) or not value or path in WHOLE or (len(path) > 1 and "name" in value):
        yield path, value
        return
    for name, inner in value.items():
        if not isinstance(name, str) or not re.fullmatch(r"[^.=\s]+(\.[^.=\s]+)*", name):
            raise UserError(
                f"{'__'.join(path)}={{...}}: the name of a setting is a text such as 'dim', not {shown(name)}"
            )
        yield from leaf_settings((*path, *name.split(".")), inner)


def check_once(fields: Iterable[tuple[tuple[str, ...], str, str]]) -> None:
    """Refuse a field that is set twice, as a whole or in part."""
    seen: dict[tuple[str, ...], str] = {}
    for path, text, place in fields:
        if path in seen:
            both = f"by {seen[path]} and by {place}" if seen[path] != place else f"by {place}"
            raise UserError(f"{'__'.join(path)} is set twice, {both}; leave one of them out")
        seen[path] = place
        if text.partition("=")[2].startswith("{"):
            options = next((other for other in seen if len(other) > len(path) and other[: len(path)] == path), None)
            if options is not None:
                raise UserError(
                    f"{'__'.join(path)} is set as a whole by {place}, and {'__'.join(options)} by {seen[options]};"
                    " leave one of them out"
                )


def as_json(value: Any, keyword: str) -> str:
    return json.dumps(check_depth(plain_value(value, keyword), shown(value)), ensure_ascii=False)


def plain_value(value: Any, keyword: str) -> Any:
    """Convert a value to plain JSON types: paths and runs to their file or folder names, tuples and arrays to lists."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(name): plain_value(inner, keyword) for name, inner in value.items()}
    if isinstance(value, (list, tuple, range)):
        return [plain_value(inner, keyword) for inner in value]
    if isinstance(folder := getattr(value, "folder", None), Path):  # a Run, given where a setting takes its folder
        return str(folder)
    raise UserError(f"{keyword} takes a number, a text, True, False, None, a list or a dict, not {shown(value)}")


def keyword_of(field: str) -> str:
    return field.replace(".", "__")


@contextmanager
def python_errors(without: str = "") -> Iterator[None]:
    """Within this context error messages use the notation of Python calls instead of the command line's. `without`
    names a section whose fields are plain keywords of the call."""
    try:
        yield
    except UserError as error:
        if error.is_of_user_code:
            raise
        raise UserError(in_python(str(error), without)) from None


TRAIN = re.compile(r"`clew train ([\w-]+)((?: \w+=[^` ]+)*)`")
ASSIGNED = re.compile(r"(?<![\w./\\'-])([a-z]+(?:\.[a-z_]\w*)+)(=(?:\[[^\]]*\]|\{[^}]*\}|[^\s,;`'\"]+)?)?")
"""Matches `model.dim` and `model.cell=gru` in a sentence, but not the end of a file path."""
UNKNOWN = re.compile(r"^unknown field '([^']+)'(?: of ([\w.]+))?; did you mean '([\w.]+)'\?")
RANGE = re.compile(r"([-+\d.eE]+?)\.\.([-+\d.eE]+)(?::([-+\d.eE]+))?")
"""Matches `1e-4..1e-2` and `64..512:64`, a range of a search."""
CONSTANTS = {"true": "True", "false": "False", "null": "None"}


def in_python(sentence: str, without: str = "") -> str:
    """Rewrite a command-line message for a Python caller: settings become keywords, options become arguments, and the
    file of examples passed as `data=` becomes that argument."""
    known = every_field()

    def spelt(field: str) -> str:
        return field.removeprefix(f"{without}.") if without else keyword_of(field)

    def whole(match: re.Match[str]) -> str:
        name, section, meant = match.groups()
        if section is None and "." not in meant:  # an option of a function, not a setting
            return match[0]
        place = f"{section}." if section else ""
        return f"unknown setting {spelt(place + name)}; did you mean {spelt(meant if '.' in meant else place + meant)}?"

    def assigned(match: re.Match[str]) -> str:
        field, value = match[1], match[2]
        has_options = not field.startswith("data.")  # data.train.csv is a file
        if not any(field == name or (has_options and field.startswith(f"{name}.")) for name in known):
            return match[0]
        return spelt(field) + ("" if value is None else f"={in_quotes(value[1:])}")

    file = rf"{re.escape(str(examples_folder()) + os.sep)}[0-9a-f]{{16}}\.(?:jsonl|txt)(?::([0-9]+))?"
    sentence = re.sub(f"'{file}' -> '{file}'", "other examples in data=", sentence)
    sentence = re.sub(file, lambda match: f"data=, example {match[1]}" if match[1] else "data=", sentence)
    sentence = ASSIGNED.sub(assigned, UNKNOWN.sub(whole, sentence))
    return TRAIN.sub(lambda match: f"`clew.train({', '.join([repr(match[1]), *match[2].split()])})`", sentence)


def in_quotes(value: str) -> str:
    """Convert a command-line value to Python notation; a name in capitals is a placeholder and stays unquoted."""
    if value in CONSTANTS or value == "":
        return CONSTANTS.get(value, "")
    if (ends := RANGE.fullmatch(value)) is not None:
        return f"({', '.join(part for part in ends.groups() if part is not None)})"
    if value[0] in "[{":
        with suppress(ValueError):
            value = repr(json.loads(value))
    is_plain = value.isupper() or value[0] in "[{0123456789-" or value == "..."
    return shortened(value) if is_plain else repr(value)
