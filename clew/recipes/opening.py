"""Open the folder of a run: of a new run, or of one to resume or overwrite."""

from collections.abc import Sequence
from pathlib import Path

from clew.core.errors import UserError
from clew.core.processes import from_first, is_restart
from clew.core.wording import argument
from clew.recipes.resolving import check_needs, read_recipe
from clew.runs.config import Config, resolve
from clew.runs.directory import check_code, check_files, config_there, default_folder, is_abandoned, read_config
from clew.runs.folder.replacing import check_replaceable
from clew.runs.folder.run_files import check_run, is_run
from clew.runs.folder.summary import summarise
from clew.runs.settings.fields import differences
from clew.runs.settings.overriding import overlay, override
from clew.runs.settings.upgrading import as_before, from_format_2
from clew.training.report import Report
from clew.training.run import check_training
from clew.training.run_folder import RunFolder

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
"""Fields that may change when a run is resumed."""


def open_new(
    config: Config, out: Path | None, *, overwrite: bool, again: bool, code: Path | None, report: Report
) -> tuple[RunFolder, Report]:
    """Choose the folder of a new run, in the first process. The report mentions how the run differs from earlier runs
    of the recipe."""
    check_training(config.training)
    notes: list[str] = []
    path = Path(from_first(lambda: str(new_folder(config, out, notes, overwrite, again))))
    return RunFolder(path, overwrite=overwrite, code=code), Announcing(report, notes)


def open_resumed(
    recipe: str, assignments: Sequence[str], config: Config, out: Path | None, code: Path | None
) -> tuple[RunFolder, Config]:
    """Return the folder of the run to resume, and its config with the changed fields."""
    path, config = resumed(recipe, assignments, config, out)
    check_code(path, code)
    check_training(config.training)
    return RunFolder(path, resume=True, code=code), config


def resumes(config: Config, out: Path | None, resume: bool, overwrite: bool) -> bool:
    """Whether to resume a run: `resume` is set, or torchrun has restarted its processes."""
    if overwrite and resume:
        raise UserError(
            f"{argument('resume', True)} continues a run and {argument('overwrite', True)} replaces it; leave one of"
            " them out"
        )
    if overwrite and out is None:
        raise UserError(
            f"{argument('overwrite', True)} replaces the run in a folder; name the folder with {argument('out')}"
        )
    if not resume:
        check_needs(config)
    return resume or (is_restart() and from_first(lambda: "yes" if is_started(config, out) else "no") == "yes")


def is_started(config: Config, out: Path | None) -> bool:
    """Whether earlier processes of the same torchrun have created the run."""
    if out is not None:
        return is_run(out)
    configs = (config_there(folder) for folder in Path("runs").glob(f"{config.recipe}*") if is_run(folder))
    return any(each is not None and not differences(each, config) for each in configs)


class Announcing:
    """A report that prints its notes before its first message, which comes after the data are read."""

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
    """Choose the folder of a new run. Differences from another run of the recipe are added to `notes`."""
    if out is None:
        folder, changed = default_folder(config, again=again)
        if changed:
            notes.append(f"there is another run of {config.recipe}; this one differs in {'; '.join(changed)}")
        return folder
    if overwrite:
        check_replaceable(out, (config.transfer.source, config.embedding.source))
        return out
    if is_run(out):
        raise UserError(
            f"{out} is a run already; resume it with {argument('resume', True)}, replace it with"
            f" {argument('overwrite', True)}, or choose another folder"
        )
    if out.exists() and not is_abandoned(out) and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} exists and is not an empty folder; choose another with {argument('out')}")
    return out


def resumed(recipe: str, assignments: Sequence[str], config: Config, out: Path | None) -> tuple[Path, Config]:
    """Return the run to resume, and its config with the overrides; raise UserError if they change fixed settings."""
    _, from_file = read_recipe(recipe)
    folder = out if out is not None else newest_run(config, exactly=bool(assignments or from_file))
    check_run(folder)
    check_files(folder)
    earlier = read_config(folder)
    for operation in ("pruned", "averaged"):
        if any(operation in record for record in summarise(folder).records):
            raise UserError(
                f"{folder} was {operation} and has no checkpoint to resume from; train it as a new run,"
                f" transfer.from={folder}"
            )
    if earlier.recipe != config.recipe:
        raise UserError(
            f"{folder} is a run of {earlier.recipe}, not of {config.recipe}; name that recipe, or another folder"
        )
    config = resolve(override(overlay(earlier.model_dump(mode="json"), from_file), assignments))
    as_format_2 = resolve(from_format_2(config.model_dump(mode="json")))
    if not fixed_differences(earlier, as_format_2):  # the overrides have the meaning of the run's version
        config = as_format_2
    if changed := fixed_differences(earlier, config):
        raise UserError(
            f"a resumed run keeps its settings, but these changed: {'; '.join(changed)}; leave them as they were, or"
            " start a new run"
        )
    steps, done = config.training.steps, summarise(folder).step
    if config.training.epochs is None and steps < min(done, earlier.training.steps):
        raise UserError(
            f"{folder} has done {done} steps already, so training.steps={steps} is too small; set it to {done} or more"
        )
    return folder, config


def fixed_differences(earlier: Config, config: Config) -> list[str]:
    """Return the differences between two configs that a resumed run may not have."""
    return [line for line in differences(earlier, config) if not line.startswith(CHANGEABLE)]


def has_settings(config: Config, run: Config) -> bool:
    """Whether a run has these settings, with their current meaning or that of an earlier version."""
    before = resolve(as_before(config.model_dump(mode="json")))
    return not fixed_differences(run, config) or not fixed_differences(run, before)


def newest_run(config: Config, exactly: bool) -> Path:
    """Find the newest run of the recipe below runs/; with `exactly`, the newest with these settings, including runs of
    grids."""
    newest, number, folder = None, 1, Path("runs") / config.recipe
    while folder.exists():
        run = config_there(folder) if is_run(folder) else None
        if run is not None and (not exactly or has_settings(config, run)):
            newest = folder
        number += 1
        folder = Path("runs") / f"{config.recipe}-{number}"
    if newest is None and exactly:
        in_grids = (folder for folder in sorted(Path("runs").glob("*=*")) if is_run(folder))
        newest = next((each for each in in_grids if (run := config_there(each)) and has_settings(config, run)), None)
    if newest is None:
        raise UserError(
            f"below runs/ there is no run of {config.recipe}{' with these settings' if exactly else ''} to resume; "
            f"leave {argument('resume', True)} out to start one"
        )
    return newest
