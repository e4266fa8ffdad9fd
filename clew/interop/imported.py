"""A checkpoint of another program's, written as a run directory that every verb takes."""

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
from clew.runs.directory import IMPORTED, METRICS, ORIGIN, WEIGHTS, check_empty, write_config, write_environment, write_weights
from clew.runs.vocabularies import save_vocabularies

Fill = Callable[[Config, dict[str, Tensor]], list[str]]


@dataclass(frozen=True)
class Imported:
    """What was understood of a checkpoint: the class it says it is, the sections of a config, vocabularies by role, `fill`, which copies
    its weights into those of the built task and says which were left, and what else is to be told. `pairs`: it may judge two texts."""

    architecture: str
    settings: dict[str, Any]
    vocabularies: dict[str, Any]
    fill: Fill
    notes: list[str] = field(default_factory=list)
    pairs: bool = False
    num_values: int | None = None
    """All numbers that the checkpoint has, where they can be told: the model has no more, but for some that clew makes."""


@dataclass(frozen=True)
class Written:
    """An imported run: where it is, and what it is."""

    folder: Path
    architecture: str
    config: Config
    vocabularies: dict[str, Any]
    parameters: int
    notes: list[str]


def write_imported(found: Imported, out: Path, source: Path) -> Written:
    """Builds the run's task, fills it, and writes the directory; it is there whole or not at all."""
    check_empty(out)
    try:
        config = resolve({"recipe": IMPORTED, **found.settings})
    except UserError as error:
        raise UserError(f"{source}: the checkpoint's settings are none that clew can build: {error}") from None
    task = build_task(config, found.vocabularies, to_train=False, stored=found.num_values)
    tensors = task.state_dict()
    with torch.no_grad():
        notes = [*found.notes, *found.fill(config, tensors)]
    aside = out.with_name(out.name + PARTIAL)
    shutil.rmtree(aside, ignore_errors=True)
    try:
        aside.mkdir(parents=True)
        write_run(aside, config, found, task, source)
        out.parent.mkdir(parents=True, exist_ok=True)
        if out.is_dir():
            out.rmdir()
        aside.replace(out)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    parameters = sum(parameter.numel() for parameter in task.parameters())
    return Written(out, found.architecture, config, found.vocabularies, parameters, notes)


def write_run(folder: Path, config: Config, found: Imported, task: nn.Module, source: Path) -> None:
    save_vocabularies(folder, found.vocabularies)
    write_environment(folder, torch.device("cpu"))
    write_json(folder / ORIGIN, {"architecture": found.architecture, "source": source.name})
    (folder / METRICS).touch()
    write_weights(folder / WEIGHTS, task.state_dict())
    write_config(folder, config)
