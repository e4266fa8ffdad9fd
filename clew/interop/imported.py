"""Write an imported checkpoint as a run directory that every verb accepts.

It has no recipe and no data, and is otherwise a run like any other, so verbs do not treat it specially.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from clew.core.errors import UserError
from clew.core.files import PARTIAL, write_json
from clew.runs.build import build_task
from clew.runs.config import Config, resolve
from clew.runs.directory import check_empty, write_config, write_environment, write_weights
from clew.runs.folder.run_files import IMPORTED, METRICS, ORIGIN, WEIGHTS
from clew.runs.folder.vocabularies import save_vocabularies

Fill = Callable[[Config, dict[str, Tensor]], list[str]]


@dataclass(frozen=True)
class Imported:
    """A checkpoint as read: its architecture, the sections of a config, and vocabularies by role. `fill` copies its
    weights into those of the built task and returns notes for the user, such as unused tensors. `pairs` is True if it
    may read two texts together."""

    architecture: str
    settings: dict[str, Any]
    vocabularies: dict[str, Any]
    fill: Fill
    notes: list[str] = field(default_factory=list)
    pairs: bool = False
    num_values: int | None = None
    """The number of values in the checkpoint, if known. The model has no more, apart from a few that clew adds."""


@dataclass(frozen=True)
class Written:
    """An imported run: its folder and its facts."""

    folder: Path
    architecture: str
    config: Config
    vocabularies: dict[str, Any]
    parameters: int
    notes: list[str]


def write_imported(checkpoint: Imported, out: Path, source: Path) -> Written:
    """Build the run's task, fill in its weights, and write the directory, completely or not at all."""
    check_empty(out)
    try:
        config = resolve({"recipe": IMPORTED, **checkpoint.settings})
    except UserError as error:
        raise UserError(f"{source}: clew cannot build a model with the checkpoint's settings: {error}") from None
    task = build_task(config, checkpoint.vocabularies, to_train=False, stored=checkpoint.num_values)
    tensors = task.state_dict()
    with torch.no_grad():
        notes = [*checkpoint.notes, *checkpoint.fill(config, tensors)]
    aside = out.with_name(out.name + PARTIAL)
    shutil.rmtree(aside, ignore_errors=True)
    try:
        aside.mkdir(parents=True)
        write_run(aside, config, checkpoint, task, source)
        out.parent.mkdir(parents=True, exist_ok=True)
        if out.is_dir():
            out.rmdir()
        aside.replace(out)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    parameters = sum(parameter.numel() for parameter in task.parameters())
    return Written(out, checkpoint.architecture, config, checkpoint.vocabularies, parameters, notes)


def write_run(folder: Path, config: Config, checkpoint: Imported, task: nn.Module, source: Path) -> None:
    save_vocabularies(folder, checkpoint.vocabularies)
    write_environment(folder, torch.device("cpu"))
    write_json(folder / ORIGIN, {"architecture": checkpoint.architecture, "source": source.name})
    (folder / METRICS).touch()
    write_weights(folder / WEIGHTS, task.state_dict())
    write_config(folder, config)
