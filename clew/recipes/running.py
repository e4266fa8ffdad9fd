"""From a recipe's name, or a YAML file that names one, to a finished run: what `clew train` and `clew.train` both do."""

from collections.abc import Sequence
from pathlib import Path

from clew.core.errors import UserError, unknown
from clew.recipes import RECIPES
from clew.runs.config import Config, differences, overlay, override, read_yaml, resolve
from clew.runs.directory import check_code, check_run, config_there, default_folder, is_run, read_config, write_config
from clew.training.run import Report, Result, Silence, check_training, train_run

CHANGEABLE = (
    "training.steps",
    "training.evaluate_every",
    "training.log_every",
    "training.save_every",
    "training.patience",
    "device",
    "decoding.",
)
"""What may differ between a run and its resumption."""


def config_of(recipe: str, assignments: Sequence[str] = ()) -> Config:
    """The resolved config of a recipe, or of a YAML file that names one, with settings laid over it."""
    path = Path(recipe)
    if path.suffix in (".yaml", ".yml"):
        if not path.is_file():
            raise UserError(f"no such file: {recipe}; a recipe is a name from `clew recipes` or a YAML file")
        more = read_yaml(path)
        recipe = more.pop("recipe")
    else:
        more = {}
    if recipe not in RECIPES:
        raise unknown("recipe", recipe, RECIPES)
    settings = resolve({"recipe": recipe, **RECIPES[recipe].settings}).model_dump(mode="json")
    settings = overlay(settings, more)
    return resolve(override(settings, assignments))


def run_recipe(
    recipe: str,
    assignments: Sequence[str] = (),
    *,
    out: Path | None = None,
    resume: bool = False,
    code: Path | None = None,
    report: Report | None = None,
) -> Result:
    """Trains a recipe in a new folder, or goes on with a run."""
    report = report or Silence()
    config = config_of(recipe, assignments)
    if resume:
        folder, config = resumed(recipe, assignments, config, out)
        check_code(folder, code)
        check_training(config.training)
        write_config(folder, config)
    else:
        check_training(config.training)
        folder = new_folder(config, out, report)
    return train_run(config, folder, resume=resume, code=code, report=report)


def new_folder(config: Config, out: Path | None, report: Report) -> Path:
    if out is None:
        folder, changed = default_folder(config)
        if changed:
            report.say(f"another run of {config.recipe} is there; this one differs in {'; '.join(changed)}")
        return folder
    if is_run(out):
        raise UserError(f"{out} is a run already; go on with it by `--resume`, or choose another folder")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} is there and not an empty folder; choose another with --out")
    return out


def resumed(recipe: str, assignments: Sequence[str], config: Config, out: Path | None) -> tuple[Path, Config]:
    """The folder to go on in, and its config with what may change changed."""
    folder = out if out is not None else newest_run(config, exactly=bool(assignments))
    check_run(folder)
    there = read_config(folder)
    if there.recipe != config.recipe:
        raise UserError(f"{folder} is a run of {there.recipe}, not of {config.recipe}; name that recipe, or another folder")
    config = resolve(override(there.model_dump(mode="json"), assignments))
    changed = [line for line in differences(there, config) if not line.startswith(CHANGEABLE)]
    if changed:
        raise UserError(
            f"a resumed run keeps its settings, but these changed: {'; '.join(changed)}; leave them as they were, or start a new run"
        )
    return folder, config


def newest_run(config: Config, exactly: bool) -> Path:
    """The newest folder below runs/ of this recipe; of exactly these settings, where some were given."""
    found, number, folder = None, 1, Path("runs") / config.recipe
    while folder.exists():
        if is_run(folder) and (not exactly or config_there(folder) == config):
            found = folder
        number += 1
        folder = Path("runs") / f"{config.recipe}-{number}"
    if found is None:
        raise UserError(
            f"below runs/ there is no run of {config.recipe}{' with these settings' if exactly else ''} to go on with; "
            "leave --resume out to start one"
        )
    return found
