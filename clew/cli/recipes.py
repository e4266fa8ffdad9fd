"""List the recipes by task, or those that match a word, or print one as commented YAML, which you can edit and pass to
`clew train`.

For example:

  clew recipes
  clew recipes translation
  clew recipes shakespeare-lstm > mine.yaml

WORD is searched in the names, tasks and descriptions.
"""

import argparse
import json
import shutil
import sys
import textwrap
from collections.abc import Iterable
from typing import Any

LEAST_WIDTH = 24
"""Columns of text beside the names; on a narrower terminal the text goes below them."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", metavar="NAME|WORD", nargs="?", help="the recipe to print, or a word that the listed recipes match"
    )
    parser.add_argument(
        "settings", metavar="section.field=value", nargs="*", default=[], help="override settings of the printed recipe"
    )
    parser.add_argument("--json", action="store_true", help="print JSON lines")


def run(options: argparse.Namespace) -> int:
    from clew.recipes import RECIPES

    listed = RECIPES
    if options.name is not None:
        listed = (
            {}
            if options.name in RECIPES or options.settings
            else {name: recipe for name, recipe in RECIPES.items() if has(name, recipe, options.name)}
        )
        if not listed:
            return print_one(options)
    if options.json:
        for name, recipe in listed.items():
            facts = {"about": recipe.about, "published": recipe.published, "takes": recipe.takes, "needs": recipe.needs}
            print(json.dumps({"name": name, "task": recipe.task, **facts}))
        return 0
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    width = max(map(len, RECIPES))
    for number, task in enumerate(dict.fromkeys(recipe.task for recipe in listed.values())):
        print(f"{chr(10) if number else ''}{words_of(task)}")
        for name, recipe in listed.items():
            if recipe.task == task:
                print("\n".join(lines_of(name, recipe, width, columns)))
    return 0


def print_one(options: argparse.Namespace) -> int:
    from clew.recipes.resolving import config_of
    from clew.runs.settings.fields import commented_yaml

    config = config_of(options.name, options.settings)
    print(
        json.dumps(config.model_dump(mode="json")) if options.json else commented_yaml(config),
        end="\n" if options.json else "",
    )
    return 0


def has(name: str, recipe: Any, word: str) -> bool:
    """Whether the name, task or description of a recipe contains a word."""
    return words_of(word.lower()) in words_of(f"{name} {recipe.task} {recipe.about}".lower())


def words_of(name: str) -> str:
    return name.replace("_", " ").replace("-", " ")


def lines_of(name: str, recipe: Any, width: int, columns: int | None) -> list[str]:
    """Return the lines that describe a recipe: notes beside its name, or below it on a narrow terminal. Without a
    terminal, lines are not wrapped."""
    notes = {"": recipe.about, "published: ": recipe.published, "takes ": recipe.takes, "needs ": recipe.needs}
    lines = [f"{label}{note}" for label, note in notes.items() if note]
    if columns is None:
        return beside(name, lines, width)
    if columns - width - 4 >= LEAST_WIDTH:
        return beside(name, [line for note in lines for line in folded(note, columns - width - 4)], width)
    return [f"  {name}", *(f"    {line}" for note in lines for line in folded(note, max(columns - 4, LEAST_WIDTH)))]


def beside(name: str, lines: Iterable[str], width: int) -> list[str]:
    return [f"  {first:{width}}  {line}" for first, line in zip([name, *[""] * 99], lines, strict=False)]


def folded(text: str, columns: int) -> list[str]:
    return textwrap.wrap(text, columns, break_on_hyphens=False)
