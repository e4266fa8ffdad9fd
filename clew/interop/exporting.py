"""Write the folder of an export. It is written next to its destination and moved there when complete, so a partial
export is never visible."""

import shutil
from copy import deepcopy
from pathlib import Path

from clew.core.errors import UserError, unknown
from clew.core.files import PARTIAL, flush
from clew.core.wording import argument
from clew.interop import EXPORTS
from clew.interop.options import ExportOptions
from clew.layers.adapters import is_adapted, merge
from clew.layers.precision import check_whole
from clew.runs.folder.run_files import is_run
from clew.runs.loaded import Run


def export_run(
    run: Run, to: str, folder: Path, options: ExportOptions | None = None, *, force: bool = False
) -> list[Path]:
    """Write a run for another runtime, one of EXPORTS, and return the files written. Adapters are merged into the
    weights they adapt.

    A folder with files is rejected unless `force` is set. Then files with the same names are replaced and others kept.
    """
    if to not in EXPORTS:
        raise unknown("format", to, EXPORTS)
    check_folder(folder, force)
    check_whole(run.task, "exported")
    if is_adapted(run.task):
        task = deepcopy(run.task)
        merge(task)
        run = Run(run.folder, run.config, run.vocabularies, task)
    aside = folder.with_name(folder.name + PARTIAL)
    remove(aside)
    try:
        aside.mkdir(parents=True)
        EXPORTS[to](run, aside, options or ExportOptions())
        names = sorted(path.relative_to(aside) for path in aside.rglob("*") if path.is_file())
        for name in names:
            flush(aside / name)
        if folder.is_dir():
            for name in names:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (aside / name).replace(folder / name)
        else:
            aside.replace(folder)
    finally:
        remove(aside)
    return [folder / name for name in names]


def check_folder(folder: Path, force: bool) -> None:
    if is_run(folder):
        raise UserError(f"{folder} is a run; choose another folder with {argument('out')}")
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file; choose another folder with {argument('out')}")
    if folder.is_dir() and any(folder.iterdir()) and not force:
        raise UserError(
            f"{folder} is not empty; choose another folder with {argument('out')}, or replace its files with"
            f" {argument('force', True)}"
        )


def remove(folder: Path) -> None:
    if folder.is_dir():
        shutil.rmtree(folder)
