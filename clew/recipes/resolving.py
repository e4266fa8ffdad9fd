"""Resolve a recipe's name, or a YAML file that names one, and overrides into a config."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clew.core.errors import UserError, command, shortened, unknown
from clew.core.wording import call
from clew.recipes import RECIPES
from clew.runs.config import Config, resolve
from clew.runs.embedding import filled
from clew.runs.folder.run_files import CODE, CONFIG, IMPORTED, read_raw_settings
from clew.runs.settings.fields import changed_fields, fields_of
from clew.runs.settings.overriding import overlay, override
from clew.runs.settings.values import read_yaml
from clew.runs.transfer import (
    INHERITED,
    check_stands,
    check_text_inherited,
    check_transfer,
    inheriting,
    with_hash,
    with_kind,
)
from clew.runs.trust import check_path

DERIVED = ("transfer.sha256", "transfer.translator", "transfer.encoder")
"""Fields that training fills in from the base run."""


def config_of(recipe: str, assignments: Sequence[str] = ()) -> Config:
    """Resolve a recipe and overrides, with what a base run adds: the hash of its weights, sizes of its vectors."""
    return filled(with_hash(resolve_recipe(recipe, assignments)))


def resolve_recipe(recipe: str, assignments: Sequence[str] = ()) -> Config:
    """Resolve a recipe and overrides, reading no file but the config of a base run."""
    name, from_file = read_recipe(recipe)
    settings = resolve({"recipe": name, **RECIPES[name].settings}).model_dump(mode="json")
    overridden = override(overlay(settings, from_file), assignments, from_file)
    if (source := overridden["transfer"].get("from")) is not None:
        inherited = inheriting(settings, overridden["task"].get("name"), source)
        overridden = with_kind(override(overlay(inherited, from_file), assignments, from_file), inherited)
        check_text_inherited(inherited, overridden)
    config = resolve(overridden)
    check_transfer(config)
    return config


def read_recipe(recipe: str) -> tuple[str, dict[str, Any]]:
    """Return the recipe's name, and the overrides of the YAML file if `recipe` is one."""
    path, name, overrides = Path(recipe), recipe, {}
    if path.suffix in (".yaml", ".yml"):
        if not is_file(path):
            names = call("clew.recipes.RECIPES", "clew recipes")
            raise UserError(f"no such file: {shortened(recipe)}; a recipe is a name from {names} or a YAML file")
        overrides = read_yaml(path)
        name = overrides.pop("recipe")
    if name not in RECIPES:
        if is_file(path / CONFIG):
            raise UserError(f"{name} is a run, not a recipe; to resume it, call {call_that_resumes(path)}")
        raise unknown("recipe", name, RECIPES)
    return name, overrides


def call_that_resumes(folder: Path) -> str:
    """Name the call that resumes a run, with the recipe of its config and its code file."""
    try:
        recipe = read_raw_settings(folder)[0].get("recipe")
    except UserError:
        recipe = None
    recipe = recipe if recipe in RECIPES else "RECIPE"
    own = folder / CODE
    code = own if is_file(own) else None
    python = f"clew.train({recipe!r}, out={str(folder)!r}, resume=True{f', code={str(code)!r}' if code else ''})"
    return call(
        python, command("clew", "train", recipe, "--out", folder, "--resume", *(("--code", code) if code else ()))
    )


def is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that no file can have
        return False


def check_needs(config: Config) -> None:
    """Refuse a recipe without the setting that it needs."""
    needs = RECIPES[config.recipe].needs
    if needs and fields_of(config).get(needs.partition("=")[0]) is None:
        raise UserError(f"{config.recipe} needs {needs}")
    check_stands(config)


def own_changes(plain: Config, config: Config) -> dict[str, Any]:
    """Return the changed fields that the config has: another task or model lacks fields of the recipe's."""
    own = fields_of(config)
    return {name: value for name, (_, value) in changed_fields(plain, config).items() if name in own}


def changes(config: Config, folder: Path | None = None) -> dict[str, Any] | None:
    """Return the fields that a run changes in its recipe, with their values; None if this installation does not have
    the recipe.

    Fields that come from the base run do not count. For an untrusted run, in `folder`, the base run is searched for
    only inside that folder.
    """
    if config.recipe == IMPORTED:
        return {}
    if config.recipe not in RECIPES:
        return None
    source = config.transfer.source
    plain = resolve_recipe(config.recipe)
    if source is None:
        return own_changes(plain, config)
    inherited: tuple[str, ...] = ()
    try:
        if folder is not None:
            check_path(folder, "transfer.from", source, "or leave it")
        base = resolve_recipe(config.recipe, [f"transfer.from={json.dumps(source)}"])
    except UserError:  # the base run has been moved or deleted
        base, inherited = plain, tuple(f"{section}." for section in INHERITED)
    own = {name: value for name, value in own_changes(base, config).items() if not name.startswith(inherited)}
    return {**{name: value for name, value in own.items() if name not in DERIVED}, "transfer.from": source}
