"""Checkpoints: all that training needs to go on to the bit, as safetensors and JSON.

    checkpoints/step-00001000/
        model.safetensors       weights
        optimiser.safetensors   the optimiser's tensors
        carried.safetensors     carried states, one a micro-batch
        training.json           step, data position, schedule, best value, the optimiser's numbers, hashes of config and data
        manifest.json           SHA-256 of every file above, written last

A checkpoint is written in a folder aside, flushed and renamed, so that one which has its name is whole; its hashes are looked at
all the same.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from clew.core.errors import UserError
from clew.core.types import State, Tree
from clew.runs.directory import FORMAT, check_format, file_hash, read_json, read_weights, write_json, write_weights
from clew.training.loop import Standing
from clew.training.observers import Best
from clew.training.schedules import Constant

KEPT = 2
MANIFEST, TRAINING, MODEL, OPTIMISER, CARRIED = (
    "manifest.json",
    "training.json",
    "model.safetensors",
    "optimiser.safetensors",
    "carried.safetensors",
)


@dataclass
class Training:
    """The parts that a checkpoint holds."""

    task: nn.Module
    optimiser: torch.optim.Optimizer
    schedule: Constant
    best: Best
    standing: Standing
    identity: dict[str, str]
    """Hashes of what training must not change under a resume, by name: config, tokenizer, data."""


def save_checkpoint(folder: Path, training: Training) -> Path:
    """Writes checkpoints/step-N below the run's folder and drops all but the newest few."""
    name = f"step-{training.standing.step:08d}"
    aside, final = folder / "checkpoints" / f".{name}.partial", folder / "checkpoints" / name
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    tensors, numbers = split_optimiser(training.optimiser.state_dict())
    write_weights(aside / MODEL, training.task.state_dict())
    write_weights(aside / OPTIMISER, tensors)
    write_weights(aside / CARRIED, named_leaves(training.standing.states))
    standing = training.standing
    write_json(
        aside / TRAINING,
        {
            "format": FORMAT,
            "step": standing.step,
            "epoch": standing.epoch,
            "batch": standing.batch,
            "skipped": standing.skipped,
            "carried": len(standing.states),
            "schedule": training.schedule.state_dict(),
            "best": training.best.state_dict(),
            "optimiser": numbers,
            "identity": training.identity,
        },
    )
    write_json(aside / MANIFEST, {path.name: file_hash(path) for path in sorted(aside.iterdir())})
    shutil.rmtree(final, ignore_errors=True)
    aside.replace(final)
    for old in checkpoint_folders(folder)[KEPT:]:
        shutil.rmtree(old, ignore_errors=True)
    return final


def checkpoint_folders(folder: Path) -> list[Path]:
    """The newest first."""
    return sorted((folder / "checkpoints").glob("step-*"), reverse=True)


def find_checkpoint(folder: Path) -> tuple[Path | None, list[str]]:
    """The newest checkpoint that is whole, and a sentence on each newer one that is not."""
    complaints: list[str] = []
    for path in checkpoint_folders(folder):
        fault = find_fault(path)
        if fault is None:
            return path, complaints
        complaints.append(f"{path} is damaged ({fault}) and is passed over")
    return None, complaints


def find_fault(checkpoint: Path) -> str | None:
    try:
        manifest = read_json(checkpoint / MANIFEST)
    except UserError as error:
        return str(error)
    if not isinstance(manifest, dict) or not {TRAINING, MODEL, OPTIMISER, CARRIED} <= set(manifest):
        return f"{MANIFEST} does not name every file"
    for name, expected in manifest.items():
        path = checkpoint / name
        if not path.is_file():
            return f"{name} is missing"
        if file_hash(path) != expected:
            return f"{name} is not what was written"
    return None


def load_checkpoint(checkpoint: Path, training: Training) -> None:
    """Puts every part back as it was."""
    about = read_json(checkpoint / TRAINING)
    check_format(about.get("format"), checkpoint / TRAINING)
    for name, expected in about["identity"].items():
        if training.identity.get(name) != expected:
            raise UserError(
                f"{checkpoint} was written with another {name}, so the run cannot go on from it; "
                f"bring the {name} back as it was, or start a new run"
            )
    training.task.load_state_dict(read_weights(checkpoint / MODEL))
    training.optimiser.load_state_dict(join_optimiser(read_weights(checkpoint / OPTIMISER), about["optimiser"]))
    training.schedule.load_state_dict(about["schedule"])
    training.best.load_state_dict(about["best"])
    standing = training.standing
    standing.step, standing.epoch, standing.batch = about["step"], about["epoch"], about["batch"]
    standing.skipped = about["skipped"]
    tensors = read_weights(checkpoint / CARRIED)
    standing.states = [carried_state(training.task, tensors, str(number)) for number in range(about["carried"])]


def named_leaves(tree: Tree, path: str = "") -> dict[str, Tensor]:
    """Every tensor of a tree by where it stands, such as `0.1.2`."""
    if isinstance(tree, Tensor):
        return {path: tree}
    parts = () if tree is None else tree.items() if isinstance(tree, dict) else enumerate(tree)
    return {name: leaf for key, part in parts for name, leaf in named_leaves(part, f"{path}.{key}".removeprefix(".")).items()}


def carried_state(task: nn.Module, tensors: dict[str, Tensor], path: str) -> State:
    """A carried state from its leaves: the task's initial state tells how they are nested, though a place empty there may be filled."""
    first = next((leaf for name, leaf in tensors.items() if name.split(".")[0] == path), None)
    if first is None:
        return None
    device = next(task.parameters()).device

    def filled(template: Tree, path: str) -> Tree:
        if template is None or isinstance(template, Tensor):
            return tensors[path].to(device) if path in tensors else None
        if isinstance(template, dict):
            return {key: filled(part, f"{path}.{key}") for key, part in template.items()}
        parts = [filled(part, f"{path}.{number}") for number, part in enumerate(template)]
        return type(template)(*parts) if hasattr(template, "_fields") else type(template)(parts)

    return filled(task.initial_state(len(first)), path)  # type: ignore[operator]


def split_optimiser(state: dict[str, Any]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """An optimiser's state as tensors by name, and the rest, which is JSON."""
    tensors, rest = {}, {}
    for index, entries in state["state"].items():
        for name, value in entries.items():
            if isinstance(value, Tensor):
                tensors[f"{index}.{name}"] = value
            else:
                rest[f"{index}.{name}"] = value
    return tensors, {"groups": state["param_groups"], "rest": rest}


def join_optimiser(tensors: dict[str, Tensor], numbers: dict[str, Any]) -> dict[str, Any]:
    state: dict[int, dict[str, Any]] = {}
    for key, value in {**tensors, **numbers["rest"]}.items():
        index, _, name = key.partition(".")
        state.setdefault(int(index), {})[name] = value
    return {"state": state, "param_groups": numbers["groups"]}
