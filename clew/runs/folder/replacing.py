"""Replacing a run by a new one in the same folder: what a run has written is deleted, and nothing else ever is."""

import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from clew.core.errors import UserError, few_of, shortened
from clew.core.files import PARTIAL, read_json
from clew.runs.directory import CODE, CONFIG, ENVIRONMENT, METRICS, ORIGIN, VOCABULARY, WEIGHTS, is_abandoned
from clew.runs.folder.lock import LOCK, is_locked
from clew.runs.folder.predictions import PREDICTIONS

WRITTEN = {CONFIG, WEIGHTS, METRICS, ENVIRONMENT, CODE, ORIGIN, VOCABULARY, PREDICTIONS, LOCK, "checkpoints"}
"""What a run consists of."""
FILES_BELOW = re.compile(r"vocabulary/[\w-]+\.json|checkpoints/\.?step-\d+[^/]*/[\w-]+\.(safetensors|json)")
"""The files that a run writes into its subfolders, by their paths from the run's folder."""
LOGS = {"events", "wandb", "mlflow"}
"""What loggers write beside it."""


def check_replaceable(folder: Path, stands_on: Iterable[str | None] = ()) -> None:
    """Refuses a folder that must not be replaced: one that is no run or fit of clew's, has other files in it, is being
    written, or is what the new run stands on. A folder that is empty or not there may be."""
    if folder.is_symlink():
        raise UserError(
            f"{shortened(str(folder))} is a link, and only a folder itself is replaced; name the folder that it"
            " leads to"
        )
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not folder.is_dir() or not is_written_by_clew(folder):
        raise UserError(
            f"{shortened(str(folder))} is not a run of clew's, and nothing else is ever replaced; choose another with"
            " --out"
        )
    others = others_in(folder)
    if others:
        raise UserError(
            f"{shortened(str(folder))} also has {few_of(others, 80)}, which no run has written, and only runs are"
            " replaced; move it away, or choose another folder with --out"
        )
    if is_locked(folder):
        raise UserError(
            f"{shortened(str(folder))} is being written by another process; wait for it or stop it, or choose another"
            " with --out"
        )
    for source in stands_on:
        if source is not None and os.path.realpath(Path(source).expanduser()) == os.path.realpath(folder):
            raise UserError(
                f"{shortened(str(folder))} is what the new run stands on, so it cannot be replaced; choose another with"
                " --out"
            )


def others_in(folder: Path) -> list[str]:
    """What a run's folder has that no run has written; what loggers write is theirs and not looked at."""
    others = [path.name for path in folder.iterdir() if not is_part(path.name)]
    below = (
        path
        for name in (VOCABULARY, "checkpoints")
        for path in (folder / name).rglob("*")
        if path.is_symlink() or not path.is_dir()
    )
    names = (path.relative_to(folder).as_posix() for path in below)
    return sorted(others) + sorted(name for name in names if not FILES_BELOW.fullmatch(name.removesuffix(PARTIAL)))


def is_part(name: str) -> bool:
    return name.removesuffix(PARTIAL) in WRITTEN | LOGS


def is_written_by_clew(folder: Path) -> bool:
    """Whether a folder has a run's config, or the environment of a fit, or what is left of a run that was killed at its
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
    """Deletes what a run consists of, but for the lock, which whoever deletes holds."""
    for path in folder.iterdir():
        if path.name == LOCK or not is_part(path.name):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
