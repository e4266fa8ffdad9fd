"""The folder of a run during training: one writer, and an error message if the disk is not writable."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from clew.core.errors import UserError
from clew.core.processes import rank
from clew.core.wording import argument
from clew.runs.config import Config
from clew.runs.directory import keep_code, remove_leftovers, write_config, write_environment
from clew.runs.folder.lock import locked
from clew.runs.folder.replacing import remove_run
from clew.runs.folder.run_files import is_run
from clew.runs.folder.vocabularies import save_vocabularies
from clew.runs.trust import trust
from clew.training.checkpoints import DiskError, cannot_write, checkpoint_folders


@dataclass(frozen=True)
class RunFolder:
    """The folder of a training run: a new one, or that of a run to `resume` or to `overwrite`. `code` is a file of the
    user's own code, which is copied into the run."""

    path: Path
    resume: bool = False
    overwrite: bool = False
    code: Path | None = None

    def prepare(self, config: Config, vocabularies: dict[str, Any], device: torch.device) -> None:
        """Write the files of a new run, with its config last. For a resumed run, write only the config, whose steps may
        have changed. A run to overwrite is deleted only here, after the new data were read and the model was built."""
        if self.overwrite:
            self.remove()
        if not self.resume and is_run(self.path):
            raise UserError(
                f"another process has started a run in {self.path} meanwhile; choose another folder with"
                f" {argument('out')}"
            )
        with writing("the run", self.path):
            remove_leftovers(self.path)
            try:
                if not self.resume:
                    save_vocabularies(self.path, vocabularies)
                    write_environment(self.path, device)
                    if self.code is not None:
                        keep_code(self.path, self.code)
                write_config(self.path, config)
                trust(self.path)
            except OSError:
                with suppress(OSError):
                    remove_leftovers(self.path)
                raise

    def remove(self) -> None:
        """Delete the run to overwrite."""
        with writing("the run", self.path):
            if self.code is not None and self.code.resolve().is_relative_to(self.path.resolve()):
                raise UserError(
                    f"{self.code} is in {self.path}, which would be deleted; copy the file elsewhere, or choose another"
                    " folder"
                )
            remove_run(self.path)


@contextmanager
def writing(what: str, folder: Path) -> Iterator[None]:
    """Within this context, raise DiskError if the disk is full or not writable."""
    try:
        yield
    except OSError as error:
        if is_run(folder) or checkpoint_folders(folder):
            raise cannot_write(what, folder, error) from None
        raise DiskError(
            f"cannot write the run to {folder}: {error.strerror or error}; choose another folder with {argument('out')}"
        ) from None


@contextmanager
def locked_run(folder: Path) -> Iterator[None]:
    """Within this context the folder is locked by the first process, so that no other program writes to the run."""
    with ExitStack() as stack:
        if rank() == 0:
            with writing("the run", folder):
                stack.enter_context(locked(folder))
        yield


def make_folder(folder: Path) -> None:
    """Create the folder, on the first process."""
    if rank() == 0:
        with writing("the run", folder):
            folder.mkdir(parents=True, exist_ok=True)
