"""The folder of a run while it is trained: one writer, and a sentence where the disk refuses."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import torch

from clew.core.errors import UserError
from clew.runs.config import Config
from clew.runs.directory import is_run, keep_code, remove_leftovers, write_config, write_environment
from clew.runs.folder.lock import locked
from clew.runs.folder.replacing import remove_run
from clew.runs.folder.vocabularies import save_vocabularies
from clew.runs.trust import trust
from clew.training.checkpoints import DiskError, cannot_write, checkpoint_folders


@contextmanager
def writing(what: str, folder: Path) -> Iterator[None]:
    """Within this context a disk that is full or may not be written to ends the run with a sentence."""
    try:
        yield
    except OSError as error:
        if is_run(folder) or checkpoint_folders(folder):
            raise cannot_write(what, folder, error) from None
        raise DiskError(
            f"cannot write the run to {folder}: {error.strerror or error}; choose another place with --out"
        ) from None


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Within this context no other process writes the run."""
    with ExitStack() as stack:
        with writing("the run", folder):
            stack.enter_context(locked(folder))
        yield


def make_folder(folder: Path) -> None:
    with writing("the run", folder):
        folder.mkdir(parents=True, exist_ok=True)


def prepare_folder(
    folder: Path,
    config: Config,
    vocabularies: dict[str, Any],
    device: torch.device,
    code: Path | None,
    resume: bool,
    overwrite: bool = False,
) -> None:
    """The files of a new run, its config last; of one that is gone on with, the config alone, whose steps may have
    changed. A run that is overwritten is deleted here, when the data of the new one have been read and its model is
    built."""
    if overwrite:
        with writing("the run", folder):
            if code is not None and code.resolve().is_relative_to(folder.resolve()):
                raise UserError(
                    f"{code} is in {folder}, which would be deleted; copy the file to another place, or choose another"
                    " folder"
                )
            remove_run(folder)
    if not resume and is_run(folder):
        raise UserError(f"{folder} has become a run meanwhile; choose another folder with --out")
    with writing("the run", folder):
        remove_leftovers(folder)
        try:
            if not resume:
                save_vocabularies(folder, vocabularies)
                write_environment(folder, device)
                if code is not None:
                    keep_code(folder, code)
            write_config(folder, config)
            trust(folder)
        except OSError:
            with suppress(OSError):
                remove_leftovers(folder)
            raise
