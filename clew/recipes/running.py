"""From a recipe's name, or a YAML file that names one, to a finished run: what `clew train` and `clew.train` both
do."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clew.core.errors import UserError, command, shortened, unknown
from clew.core.processes import from_first, is_first, is_restart, process_group
from clew.recipes import RECIPES
from clew.runs.config import Config, resolve
from clew.runs.directory import (
    CONFIG,
    IMPORTED,
    check_code,
    check_files,
    check_run,
    config_there,
    default_folder,
    is_abandoned,
    is_run,
    read_config,
)
from clew.runs.embedding import filled
from clew.runs.folder.replacing import check_replaceable
from clew.runs.folder.summary import summarise
from clew.runs.settings.fields import changed_fields, differences, fields_of
from clew.runs.settings.overriding import overlay, override
from clew.runs.settings.upgrading import as_before, from_format_2
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
from clew.training.callbacks import Callback
from clew.training.report import Report, Silence
from clew.training.run import Result, check_training, train_run

CHANGEABLE = (
    "training.steps",
    "training.epochs",
    "training.evaluate_every",
    "training.log_every",
    "training.log:",
    "training.save_every",
    "training.patience",
    "training.keep",
    "training.workers",
    "training.accumulate",
    "training.parallel",
    "training.recompute",
    "training.compile",
    "training.capture",
    "device",
    "decoding.",
)
"""What may differ between a run and its resumption."""
FOUND = ("transfer.sha256", "transfer.translator", "transfer.encoder")
"""What training finds out of the run that another stands on."""


def config_of(recipe: str, assignments: Sequence[str] = ()) -> Config:
    """The resolved config of a recipe, or of a YAML file that names one, with overrides; a base run that it names is
    looked up."""
    return filled(with_hash(laid_config(recipe, assignments)))


def laid_config(recipe: str, assignments: Sequence[str] = ()) -> Config:
    """The config without what is told by other files than another run's config."""
    name, more = read_recipe(recipe)
    settings = resolve({"recipe": name, **RECIPES[name].settings}).model_dump(mode="json")
    laid = override(overlay(settings, more), assignments, more)
    if (source := laid["transfer"].get("from")) is not None:
        inherited = inheriting(settings, laid["task"].get("name"), source)
        laid = with_kind(override(overlay(inherited, more), assignments, more), inherited)
        check_text_inherited(inherited, laid)
    config = resolve(laid)
    check_transfer(config)
    return config


def check_needs(config: Config) -> None:
    """Refuses a recipe without the setting that it needs."""
    needs = RECIPES[config.recipe].needs
    if needs and fields_of(config).get(needs.partition("=")[0]) is None:
        raise UserError(f"{config.recipe} needs {needs}")
    check_stands(config)


def read_recipe(recipe: str) -> tuple[str, dict[str, Any]]:
    """The recipe's name, and the settings that a YAML file lays over it."""
    path, name, more = Path(recipe), recipe, {}
    if path.suffix in (".yaml", ".yml"):
        if not is_there(path):
            raise UserError(f"no such file: {shortened(recipe)}; a recipe is a name from `clew recipes` or a YAML file")
        more = read_yaml(path)
        name = more.pop("recipe")
    if name not in RECIPES:
        if is_there(path / CONFIG):
            raise UserError(
                f"{name} is a run, and not a recipe; to go on with it, "
                f"add {command('--out', name, '--resume')} to the command that began it"
            )
        raise unknown("recipe", name, RECIPES)
    return name, more


def is_there(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that no file can have
        return False


def run_recipe(
    recipe: str,
    assignments: Sequence[str] = (),
    *,
    out: Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    again: bool = False,
    code: Path | None = None,
    report: Report | None = None,
    callbacks: Sequence[Callback] = (),
) -> Result:
    """Trains a recipe in a new folder, or goes on with a run, or replaces the run at `out` where it is to be
    overwritten.

    Without `out`, settings that a run has already are trained `again` in a new folder, or else refused.
    """
    report = report if report is not None and is_first() else Silence()
    report.stage("reading the settings")
    config = config_of(recipe, assignments)
    if overwrite and resume:
        raise UserError("--resume goes on with a run and --overwrite replaces it; leave one of them out")
    if overwrite and out is None:
        raise UserError("--overwrite replaces the run in a folder; name the folder with --out DIR")
    if not resume:
        check_needs(config)
    with process_group(config.device):
        if is_restart() and not resume:
            resume = from_first(lambda: "yes" if is_started(config, out) else "no") == "yes"
        if resume:
            folder, config = resumed(recipe, assignments, config, out)
            check_code(folder, code)
            check_training(config.training)
        else:
            check_training(config.training)
            notes: list[str] = []
            folder = Path(from_first(lambda: str(new_folder(config, out, notes, overwrite, again))))
            report = Announcing(report, notes)
        return train_run(
            config, folder, resume=resume, overwrite=overwrite, code=code, report=report, callbacks=callbacks
        )


def is_started(config: Config, out: Path | None) -> bool:
    """Whether the processes that torchrun started before these got as far as making the run."""
    if out is not None:
        return is_run(out)
    there = (config_there(folder) for folder in Path("runs").glob(f"{config.recipe}*") if is_run(folder))
    return any(each is not None and not differences(each, config) for each in there)


class Announcing:
    """A report that says something before all else that it is told to say, by which time a run's data have been
    read."""

    def __init__(self, report: Report, notes: list[str]):
        self.notes = notes
        self.report = report
        self.stage = report.stage
        self.encoding = report.encoding
        self.step = report.step
        self.evaluating = report.evaluating
        self.evaluated = report.evaluated

    def say(self, text: str) -> None:
        for line in [*self.notes, text]:
            self.report.say(line)
        self.notes = []


def new_folder(
    config: Config, out: Path | None, notes: list[str], overwrite: bool = False, again: bool = False
) -> Path:
    """Where a new run goes. What differs from another of the same recipe is noted."""
    if out is None:
        folder, changed = default_folder(config, again=again)
        if changed:
            notes.append(f"another run of {config.recipe} is there; this one differs in {'; '.join(changed)}")
        return folder
    if overwrite:
        check_replaceable(out, (config.transfer.source, config.embedding.source))
        return out
    if is_run(out):
        raise UserError(
            f"{out} is a run already; go on with it by `--resume`, replace it by `--overwrite`, or choose another"
            " folder"
        )
    if out.exists() and not is_abandoned(out) and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} is there and not an empty folder; choose another with --out")
    return out


def resumed(recipe: str, assignments: Sequence[str], config: Config, out: Path | None) -> tuple[Path, Config]:
    """The folder to go on in, and its config with what may change changed."""
    _, more = read_recipe(recipe)
    folder = out if out is not None else newest_run(config, exactly=bool(assignments or more))
    check_run(folder)
    check_files(folder)
    there = read_config(folder)
    for made in ("pruned", "averaged"):
        if any(made in record for record in summarise(folder).records):
            raise UserError(
                f"{folder} was {made} and has no checkpoint to go on from; train it as a new run,"
                f" transfer.from={folder}"
            )
    if there.recipe != config.recipe:
        raise UserError(
            f"{folder} is a run of {there.recipe}, not of {config.recipe}; name that recipe, or another folder"
        )
    config = resolve(override(overlay(there.model_dump(mode="json"), more), assignments))
    earlier = resolve(from_format_2(config.model_dump(mode="json")))
    if not fixed_differences(there, earlier):  # the words that began it mean what they meant then
        config = earlier
    if changed := fixed_differences(there, config):
        raise UserError(
            f"a resumed run keeps its settings, but these changed: {'; '.join(changed)}; leave them as they were, or"
            " start a new run"
        )
    steps, done = config.training.steps, summarise(folder).step
    if config.training.epochs is None and steps < min(done, there.training.steps):
        raise UserError(
            f"{folder} has done {done} steps already, and training.steps={steps} asks for fewer; ask for at least as"
            " many"
        )
    return folder, config


def changes(config: Config, folder: Path | None = None) -> dict[str, Any] | None:
    """The fields in which a run departs from its recipe, and their values; None where the recipe is not known here.
    What it has from the run that it stands on is no departure; where the run is a stranger's, in `folder`, that one is
    not looked for elsewhere."""
    if config.recipe == IMPORTED:
        return {}
    if config.recipe not in RECIPES:
        return None
    source = config.transfer.source
    plain = laid_config(config.recipe)
    if source is None:
        return {name: here for name, (_, here) in changed_fields(plain, config).items()}
    inherited: tuple[str, ...] = ()
    try:
        if folder is not None:
            check_path(folder, "transfer.from", source, "or leave it")
        base = laid_config(config.recipe, [f"transfer.from={json.dumps(source)}"])
    except UserError:  # it is no more where it was
        base, inherited = plain, tuple(f"{section}." for section in INHERITED)
    found = {name: here for name, (_, here) in changed_fields(base, config).items() if not name.startswith(inherited)}
    return {**{name: value for name, value in found.items() if name not in FOUND}, "transfer.from": source}


def fixed_differences(there: Config, config: Config) -> list[str]:
    """In what two configs differ that a resumed run must keep."""
    return [line for line in differences(there, config) if not line.startswith(CHANGEABLE)]


def is_begun_by(config: Config, there: Config) -> bool:
    """Whether a run is of these settings, as they are meant now or were before."""
    before = resolve(as_before(config.model_dump(mode="json")))
    return not fixed_differences(there, config) or not fixed_differences(there, before)


def newest_run(config: Config, exactly: bool) -> Path:
    """The newest folder below runs/ of this recipe; of exactly these settings, where some were given, be it one of a
    grid's."""
    found, number, folder = None, 1, Path("runs") / config.recipe
    while folder.exists():
        there = config_there(folder) if is_run(folder) else None
        if there is not None and (not exactly or is_begun_by(config, there)):
            found = folder
        number += 1
        folder = Path("runs") / f"{config.recipe}-{number}"
    if found is None and exactly:
        others = (there for there in sorted(Path("runs").glob("*=*")) if is_run(there))
        found = next((there for there in others if (run := config_there(there)) and is_begun_by(config, run)), None)
    if found is None:
        raise UserError(
            f"below runs/ there is no run of {config.recipe}{' with these settings' if exactly else ''} to go on with; "
            "leave --resume out to start one"
        )
    return found
