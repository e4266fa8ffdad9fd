"""The named forms of `clew predict`, such as `clew tag` and `clew translate`: their arguments and help, generated from
the uses in TASKS.

`python -m clew.cli.options.forms` writes `forms.json`, so that a help text loads neither torch nor pydantic. It also
writes the list of instruments and the resolved settings of the recipes, which `clew look` and `clew runs` read. A test
compares each with its table.
"""

import argparse
import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

from clew.cli.options.precision import add_precision

FORMS = os.path.join(os.path.dirname(__file__), "forms.json")
INSTRUMENT_LIST = os.path.join(os.path.dirname(__file__), "instruments.json")
DEVICES = ["auto", "cpu", "cuda", "mps"]
TYPES: dict[str, Any] = {"int": int, "float": float}


def read_forms() -> dict[str, dict[str, Any]]:
    with open(FORMS, encoding="utf-8") as file:
        return json.load(file)


def read_instruments() -> dict[str, dict[str, Any]]:
    with open(INSTRUMENT_LIST, encoding="utf-8") as file:
        return json.load(file)


def add_form(parser: argparse.ArgumentParser, verb: str, form: Mapping[str, Any]) -> None:
    """Add the arguments of a named form."""
    add = parser.add_argument
    metavar, several = form["text"]["metavar"], form["together"]
    add(
        "folder",
        metavar="RUN",
        help="a run directory; several runs answer as an ensemble" if several else "a run directory",
    )
    more_runs = "more runs, and " if several else ""
    default = "" if form["begins"] else " (default: the lines of --file or of standard input)"
    add(
        "texts",
        metavar=f"RUN|{metavar}" if several else metavar,
        nargs="*",
        default=[],
        help=f"{more_runs}{form['text']['help']}{default}",
    )
    add_options(parser, verb, form)


def add_options(parser: argparse.ArgumentParser, verb: str, form: Mapping[str, Any]) -> None:
    """Add the options of a named form."""
    add = parser.add_argument
    parser.set_defaults(
        verb=verb,
        together=form["together"],
        columns=[column["name"] for column in form["columns"]],
        shared=[column["name"] for column in form["columns"] if column["shared"]],
        known={option["name"]: option["type"] for option in form["options"]},
    )
    source = "- is standard input" if form["begins"] else "default: standard input"
    add(
        "--file",
        metavar="FILE",
        help=(
            f"read texts from a file: lines, a table such as .csv, .jsonl or .parquet, or another format of the task"
            f" ({source})"
        ),
    )
    for column in form["columns"]:
        add(f"--{column['name']}", metavar=column["metavar"], help=column["help"])
    for option in form["options"]:
        add_option(parser, option)
    shown = parser.add_mutually_exclusive_group()
    formats = [*form["formats"], "json"]
    shown.add_argument("--format", choices=formats, help=f"the output format (default: {formats[0]})")
    taken = {column["name"] for column in form["columns"]}
    for name in dict.fromkeys([*formats[1:], "json"]):
        if name not in taken:
            help = "print one JSON object per answer" if name == "json" else f"the same as --format {name}"
            shown.add_argument(f"--{name}", action="store_const", dest="format", const=name, help=help)
    add("--out", metavar="FILE", help="write to this file instead of standard output")
    add("--device", default="auto", choices=DEVICES, help="the device to run on")
    add_precision(parser)


def add_option(parser: argparse.ArgumentParser, option: Mapping[str, Any]) -> None:
    flag, kind = f"--{option['name'].replace('_', '-')}", option["type"]
    common: dict[str, Any] = {"dest": option["name"], "default": None, "help": option["help"].replace("%", "%%")}
    if kind == "flag":
        parser.add_argument(flag, action="store_const", const=True, **common)
    elif kind == "switch":
        parser.add_argument(flag, action=argparse.BooleanOptionalAction, **common)
    elif kind == "choice":
        parser.add_argument(flag, choices=option["choices"], **common)
    else:
        parser.add_argument(flag, type=TYPES.get(kind, str), metavar=option["metavar"], **common)


def form_of(uses: Iterable[Any]) -> dict[str, Any]:
    """Combine all uses of a verb into one form, with the arguments of each."""
    uses = list(uses)
    columns: dict[str, dict[str, Any]] = {}
    options: dict[str, dict[str, Any]] = {}
    for use in uses:
        for number, (name, field) in enumerate(use.row.model_fields.items()):
            extra = field.json_schema_extra or {}
            if extra.get("column", True):
                help = (
                    field.description or ""
                    if number
                    else f"read the {name} from this column of a table, given by name or number"
                )
                metavar = extra.get("metavar", "COLUMN") if number else "COLUMN"
                columns.setdefault(
                    name, {"name": name, "metavar": metavar, "help": help, "shared": extra.get("file", False)}
                )
        for name, field in use.options.model_fields.items():
            options.setdefault(name, option_of(name, field))
    first_name, first = next(iter(uses[0].row.model_fields.items()))
    return {
        "about": uses[0].about,
        "help": uses[0].help,
        "text": {
            "metavar": (first.json_schema_extra or {}).get("metavar", first_name.upper()),
            "help": first.description,
        },
        "columns": list(columns.values()),
        "options": list(options.values()),
        "formats": list(dict.fromkeys(name for use in uses for name in use.formats)),
        "together": any(use.together for use in uses),
        "begins": any(use.begins for use in uses),
    }


def option_of(name: str, field: Any) -> dict[str, Any]:
    """Describe a field of a use's options as a command-line argument."""
    from types import NoneType
    from typing import Literal, get_args, get_origin

    annotation = field.annotation
    kinds = (annotation,) if get_origin(annotation) is Literal else get_args(annotation) or (annotation,)
    plain = [kind for kind in kinds if kind is not NoneType]
    option: dict[str, Any] = {"name": name, "help": field.description or name}
    if plain == [bool]:
        return {**option, "type": "flag" if len(kinds) == 1 else "switch"}
    if len(plain) == 1 and get_origin(plain[0]) is Literal:
        return {**option, "type": "choice", "choices": sorted(get_args(plain[0]))}
    kind = plain[0].__name__ if len(plain) == 1 and plain[0] in (int, float) else "value" if bool in plain else "text"
    metavar = {"int": "N", "float": "X"}.get(kind, name.upper())
    return {**option, "type": kind, "metavar": (field.json_schema_extra or {}).get("metavar", metavar)}


def all_forms() -> dict[str, dict[str, Any]]:
    """Return the form of every verb that some task has a use for."""
    from clew.tasks import TASKS, USES

    uses: dict[str, list[Any]] = {}
    for entry in TASKS.values():
        for verb, use in entry.uses.items():
            uses.setdefault(verb, []).append(use)
    for verb, shared in USES.items():
        uses.setdefault(verb, []).append(shared.use)
    return {verb: form_of(each) for verb, each in uses.items()}


def all_instruments() -> dict[str, dict[str, Any]]:
    """Return the description and options of every instrument."""
    from clew.instruments import INSTRUMENTS

    return {
        name: {"about": each.about, "several": each.several, "options": each.options.model_json_schema()}
        for name, each in INSTRUMENTS.items()
    }


def all_resolved() -> dict[str, dict[str, Any]]:
    """Return the resolved fields of every recipe."""
    from clew.recipes import RECIPES
    from clew.recipes.resolving import resolve_recipe
    from clew.runs.settings.fields import fields_of

    return {name: fields_of(resolve_recipe(name)) for name in RECIPES}


def generated() -> dict[str, Any]:
    """Return the generated files and their contents."""
    from clew.recipes.listed_runs import RESOLVED, packed

    return {FORMS: all_forms(), INSTRUMENT_LIST: all_instruments(), str(RESOLVED): packed(all_resolved())}


if __name__ == "__main__":
    for path, content in generated().items():
        with open(path, "w", encoding="utf-8") as out:
            out.write(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
