"""The named forms of the command, `clew tag`, `clew translate` and so on: their arguments and their help, made of the
uses in TASKS.

`forms.json` is made of them by `python -m clew.cli.options.forms`, so that a help loads neither torch nor pydantic; so
are the list of the instruments and the resolved settings of the recipes, which `clew look` and `clew runs` read. A test
holds each against its table.
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
    """The arguments of a verb's form."""
    add = parser.add_argument
    metavar, several = form["text"]["metavar"], form["together"]
    add("folder", metavar="RUN", help="a run directory; several answer together" if several else "a run directory")
    more = "more runs, and " if several else ""
    default = "" if form["begins"] else " (default: lines of --file, or of standard input)"
    add(
        "texts",
        metavar=f"RUN|{metavar}" if several else metavar,
        nargs="*",
        default=[],
        help=f"{more}{form['text']['help']}{default}",
    )
    add_options(parser, verb, form)


def add_options(parser: argparse.ArgumentParser, verb: str, form: Mapping[str, Any]) -> None:
    """What a form takes besides RUN and TEXT."""
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
        help=f"lines, a table (.csv, .tsv, .jsonl), or another file that the task reads ({source})",
    )
    for column in form["columns"]:
        add(f"--{column['name']}", metavar=column["metavar"], help=column["help"])
    for option in form["options"]:
        add_option(parser, option)
    shown = parser.add_mutually_exclusive_group()
    formats = [*form["formats"], "json"]
    shown.add_argument("--format", choices=formats, help=f"how answers are written (default: {formats[0]})")
    taken = {column["name"] for column in form["columns"]}
    for name in dict.fromkeys([*formats[1:], "json"]):
        if name not in taken:
            help = "one JSON object an answer" if name == "json" else f"the same as --format {name}"
            shown.add_argument(f"--{name}", action="store_const", dest="format", const=name, help=help)
    add("--out", metavar="FILE", help="write here instead of to standard output")
    add("--device", default="auto", choices=DEVICES, help="where the model runs")
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
    """One form for all uses of a verb: the arguments of any of them."""
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
                    else f"FILE is a table, and this column, by name or number, has the {name}"
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
    """A field of options as an argument of the command."""
    from types import NoneType
    from typing import Literal, get_args, get_origin

    annotation = field.annotation
    kinds = (annotation,) if get_origin(annotation) is Literal else get_args(annotation) or (annotation,)
    plain = [kind for kind in kinds if kind is not NoneType]
    found: dict[str, Any] = {"name": name, "help": field.description or name}
    if plain == [bool]:
        return {**found, "type": "flag" if len(kinds) == 1 else "switch"}
    if len(plain) == 1 and get_origin(plain[0]) is Literal:
        return {**found, "type": "choice", "choices": sorted(get_args(plain[0]))}
    kind = plain[0].__name__ if len(plain) == 1 and plain[0] in (int, float) else "value" if bool in plain else "text"
    metavar = {"int": "N", "float": "X"}.get(kind, name.upper())
    return {**found, "type": kind, "metavar": (field.json_schema_extra or {}).get("metavar", metavar)}


def all_forms() -> dict[str, dict[str, Any]]:
    """The form of every verb that some task has a use for."""
    from clew.tasks import TASKS, USES

    uses: dict[str, list[Any]] = {}
    for entry in TASKS.values():
        for verb, use in entry.uses.items():
            uses.setdefault(verb, []).append(use)
    for verb, shared in USES.items():
        uses.setdefault(verb, []).append(shared.use)
    return {verb: form_of(each) for verb, each in uses.items()}


def all_instruments() -> dict[str, dict[str, Any]]:
    """What a list of the instruments says of each, and its options."""
    from clew.instruments import INSTRUMENTS

    return {
        name: {"about": each.about, "several": each.several, "options": each.options.model_json_schema()}
        for name, each in INSTRUMENTS.items()
    }


def all_resolved() -> dict[str, dict[str, Any]]:
    """The fields of every recipe."""
    from clew.recipes import RECIPES
    from clew.recipes.running import laid_config
    from clew.runs.settings.fields import fields_of

    return {name: fields_of(laid_config(name)) for name in RECIPES}


def generated() -> dict[str, Any]:
    """The files that listing verbs read instead of what they are made of, and their contents."""
    from clew.recipes.listed_runs import RESOLVED, packed

    return {FORMS: all_forms(), INSTRUMENT_LIST: all_instruments(), str(RESOLVED): packed(all_resolved())}


if __name__ == "__main__":
    for path, content in generated().items():
        with open(path, "w", encoding="utf-8") as out:
            out.write(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
