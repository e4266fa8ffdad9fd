"""Replace a run with a new one in the same folder. Only files that a run writes are deleted, never anything else."""

import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from clew.core.errors import UserError, few_of, shortened
from clew.core.files import PARTIAL, read_json
from clew.core.wording import argument
from clew.runs.directory import is_abandoned
from clew.runs.folder.lock import LOCK, is_locked
from clew.runs.folder.predictions import PREDICTIONS
from clew.runs.folder.run_files import CODE, CONFIG, ENVIRONMENT, METRICS, ORIGIN, VOCABULARY, WEIGHTS

WRITTEN = {CONFIG, WEIGHTS, METRICS, ENVIRONMENT, CODE, ORIGIN, VOCABULARY, PREDICTIONS, LOCK, "checkpoints"}
"""The files and folders of a run."""
FILES_BELOW = re.compile(r"vocabulary/[\w-]+\.json|checkpoints/\.?step-\d+[^/]*/[\w-]+\.(safetensors|json)")
"""The files that a run writes into its subfolders, by their paths relative to the run's folder."""
LOGS = {"events", "wandb", "mlflow"}
"""The folders that loggers write."""


def check_replaceable(folder: Path, base_runs: Iterable[str | None] = ()) -> None:
    """Refuse a folder that must not be replaced: it is not a run or fit of clew's, has other files in it, is being
    written, or is a base of the new run. A folder that is empty or does not exist is accepted."""
    if folder.is_symlink():
        raise UserError(
            f"{shortened(str(folder))} is a link, and only a folder itself can be replaced; name the folder that it"
            " points to"
        )
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not folder.is_dir() or not is_written_by_clew(folder):
        raise UserError(
            f"{shortened(str(folder))} is not a run of clew's, and only runs can be replaced; choose another folder"
            f" with {argument('out')}"
        )
    foreign = foreign_files(folder)
    if foreign:
        raise UserError(
            f"{shortened(str(folder))} also has {few_of(foreign, 80)}, which no run has written, and only runs can be"
            f" replaced; move it away, or choose another folder with {argument('out')}"
        )
    if is_locked(folder):
        raise UserError(
            f"{shortened(str(folder))} is being written by another process; wait for it or stop it, or choose another"
            f" with {argument('out')}"
        )
    for base in base_runs:
        if base is not None and os.path.realpath(Path(base).expanduser()) == os.path.realpath(folder):
            raise UserError(
                f"{shortened(str(folder))} is the run that the new run starts from, so it cannot be replaced; choose"
                f" another folder with {argument('out')}"
            )


def foreign_files(folder: Path) -> list[str]:
    """Return the files in a run's folder that no run has written. The folders of loggers are not searched."""
    foreign = [path.name for path in folder.iterdir() if not is_part(path.name)]
    below = (
        path
        for name in (VOCABULARY, "checkpoints")
        for path in (folder / name).rglob("*")
        if path.is_symlink() or not path.is_dir()
    )
    names = (path.relative_to(folder).as_posix() for path in below)
    return sorted(foreign) + sorted(name for name in names if not FILES_BELOW.fullmatch(name.removesuffix(PARTIAL)))


def is_part(name: str) -> bool:
    return name.removesuffix(PARTIAL) in WRITTEN | LOGS


def is_written_by_clew(folder: Path) -> bool:
    """Whether a folder has a run's config, a fit's environment, or the leftovers of a run that was killed at its
    start."""
    if (folder / CONFIG).is_file():
        try:
            settings = read_json(folder / CONFIG)
        except UserError:
            return False
        return isinstance(settings, dict) and {"format", "recipe"} <= settings.keys()
    if is_abandoned(folder):
        return True
    try:
        facts = read_json(folder / ENVIRONMENT)
    except (UserError, OSError):
        return False
    return isinstance(facts, dict) and {"python", "torch", "hardware"} <= facts.keys()


def remove_run(folder: Path) -> None:
    """Delete the files of a run, except the lock, which the caller holds."""
    for path in folder.iterdir():
        if path.name == LOCK or not is_part(path.name):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
