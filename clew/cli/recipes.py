"""List the recipes, or print one as commented YAML: a file to change and give to `clew train`.

For example:

  clew recipes
  clew recipes shakespeare-lstm > mine.yaml
"""

import argparse
import json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="the recipe to print whole")
    parser.add_argument("settings", metavar="section.field=value", nargs="*", default=[], help="settings laid over it")
    parser.add_argument("--json", action="store_true", help="JSON lines")


def run(options: argparse.Namespace) -> int:
    from clew.recipes import RECIPES
    from clew.recipes.running import config_of
    from clew.runs.fields import commented_yaml

    if options.name is not None:
        config = config_of(options.name, options.settings)
        print(json.dumps(config.model_dump(mode="json")) if options.json else commented_yaml(config), end="\n" if options.json else "")
        return 0
    width = max(map(len, RECIPES))
    for name, recipe in RECIPES.items():
        if options.json:
            print(
                json.dumps(
                    {"name": name, "about": recipe.about, "published": recipe.published, "takes": recipe.takes, "needs": recipe.needs}
                )
            )
        else:
            notes = {"published: ": recipe.published, "takes ": recipe.takes, "needs ": recipe.needs}
            lines = [f"{'':{width}}  {what}{note}" for what, note in notes.items() if note]
            print("\n".join([f"{name:{width}}  {recipe.about}", *lines]))
    return 0
