"""Checkpoints: everything that training needs to resume bit for bit, as safetensors and JSON.

    checkpoints/step-00001000/
        model.safetensors       weights
        optimiser.safetensors   the optimiser's tensors
        average.safetensors     averaged weights, if there are any
        carried.safetensors     the carried state of every row
        training.json           step, data position, schedule, best value, the optimiser's numbers, and the facts that
                                must not change when a run is resumed
        manifest.json           SHA-256 of every file above, written last

If tensors are sharded, each process writes its own shards, such as model-1-of-2.safetensors, and model.json lists the
shard files and the shape of each whole tensor. A checkpoint is written to a temporary folder, flushed and renamed, so
that a folder with its final name is complete. Its hashes are checked nevertheless.
"""

import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from clew.core.batches import cut_rows
from clew.core.errors import UserError
from clew.core.files import PARTIAL, file_hash, flush, read_json, write_json
from clew.core.identity import Known, agree
from clew.core.processes import gather_rows, rank, sum_over_processes, world_size
from clew.core.types import State, Tree
from clew.core.wording import argument
from clew.layers.adapters import own_weights
from clew.runs.directory import read_weights, write_weights
from clew.runs.folder.run_files import FORMAT, check_format
from clew.runs.settings.upgrading import upgraded
from clew.training.averaging import Average
from clew.training.format_1 import agrees_with_words
from clew.training.observers import Best
from clew.training.parallel import load_whole, local, shard_of
from clew.training.records import Progress
from clew.training.schedules import Constant

MANIFEST, TRAINING = "manifest.json", "training.json"
MODEL, OPTIMISER, AVERAGE, CARRIED = "model", "optimiser", "average", "carried"


@dataclass
class TrainingState:
    """The state that a checkpoint holds."""

    task: nn.Module
    optimiser: torch.optim.Optimizer
    schedule: Constant
    best: Best
    progress: Progress
    identity: Mapping[str, Known]
    """Facts that must not change when a run is resumed, by name: model, tokenizer, data, batches."""
    average: Average | None = None


def save_checkpoint(folder: Path, state: TrainingState, keep: int = 2) -> Path:
    """Write checkpoints/step-N in the run's folder, and delete all except the newest `keep` checkpoints. Every process
    must call this."""
    name = f"step-{state.progress.step:08d}"
    partial, final = folder / "checkpoints" / f".{name}{PARTIAL}", folder / "checkpoints" / name
    progress, average = state.progress, state.average
    progress.look()
    tensors, numbers = split_optimiser(state.optimiser.state_dict())
    carried = gather_rows(progress.state)
    groups = {
        MODEL: own_weights(state.task, state.task.state_dict()),
        OPTIMISER: tensors,
        CARRIED: named_leaves(carried, "0") if carried is not None else {},
        **({AVERAGE: average.means} if average is not None and average.active else {}),
    }

    def begin() -> None:
        if rank() == 0:
            drop_partials(folder)
            partial.mkdir(parents=True)

    def write() -> None:
        for group, content in groups.items():
            write_group(partial, group, content)

    def end() -> None:
        if rank() != 0:
            return
        about = {
            "format": FORMAT,
            "step": progress.step,
            "epoch": progress.epoch,
            "batch": progress.batch,
            "place": progress.place,
            "skipped": progress.skipped,
            "halvings": progress.halvings,
            "seconds": progress.seconds,
            "tokens": progress.tokens,
            "carried": int(carried is not None),
            "schedule": state.schedule.state_dict(),
            "best": state.best.state_dict(),
            "average": average.state_dict() if average is not None else None,
            "optimiser": numbers,
            "identity": {fact: known._asdict() for fact, known in state.identity.items()},
        }
        write_json(partial / TRAINING, about)
        write_json(partial / MANIFEST, {path.name: file_hash(path) for path in sorted(partial.iterdir())})
        flush(partial)
        drop(final)
        partial.replace(final)
        flush(final.parent)
        folders = checkpoint_folders(folder)
        newer = [path for path in folders if path.name > name]  # damaged: training resumed from an earlier one
        for path in [*newer, *folders[len(newer) + keep :]]:
            drop(path)

    for stage in (begin, write, end):
        run_on_all(stage, folder)
    return final


def run_on_all(stage: Callable[[], None], folder: Path) -> None:
    """Run a stage of saving on every process. If it fails on one, it raises on all, so that none waits for another."""
    failure: OSError | None = None
    try:
        stage()
    except OSError as error:
        failure = error
    failed = bool(sum_over_processes(torch.tensor(int(failure is not None))))
    if not failed:
        return
    if rank() == 0:
        drop_partials(folder)
    raise cannot_write("a checkpoint", folder, failure)


class DiskError(UserError):
    """The disk is full or not writable: not a fault of the settings of the run."""


def cannot_write(what: str, folder: Path, error: OSError | None) -> DiskError:
    """Return the error for a disk that is full or not writable during a run. Without `error`, another process had
    it."""
    why = (error.strerror or str(error)) if error is not None else "see the message of another process"
    newest = next((path.name for path in checkpoint_folders(folder)), None)
    source = f"from {newest}" if newest is not None else "from the start, as no checkpoint was saved yet"
    return DiskError(
        f"cannot write {what} in {folder}: {why}; free space there, or make it writable, and resume with"
        f" {argument('resume', True)} {source}"
    )


def drop(checkpoint: Path) -> None:
    """Delete a checkpoint, if possible. It is renamed first, so that a folder with a checkpoint's name is always
    complete."""
    dropped = checkpoint.with_name(f".{checkpoint.name}.dropped{PARTIAL}")
    with suppress(OSError):
        checkpoint.replace(dropped)
    shutil.rmtree(dropped, ignore_errors=True)


def drop_partials(folder: Path) -> None:
    for partial in (folder / "checkpoints").glob(f".*{PARTIAL}"):
        shutil.rmtree(partial, ignore_errors=True)


def write_group(folder: Path, group: str, tensors: Mapping[str, Tensor]) -> None:
    """Write a group of tensors: in one file by the first process, or in one file per process if some are sharded."""
    if not any(isinstance(tensor, DTensor) for tensor in tensors.values()):
        if rank() == 0:
            write_weights(folder / f"{group}.safetensors", tensors)
        return
    shards = {name: local(tensor) for name, tensor in tensors.items() if isinstance(tensor, DTensor) or rank() == 0}
    write_weights(
        folder / shard_name(group, rank()),
        {name: part for name, part in shards.items() if part.numel() or part.dim() == 0},
    )
    if rank() == 0:
        shapes = {name: list(tensor.shape) for name, tensor in tensors.items()}
        write_json(
            folder / f"{group}.json",
            {"shards": [shard_name(group, number) for number in range(world_size())], "shapes": shapes},
        )


def shard_name(group: str, number: int) -> str:
    return f"{group}-{number + 1}-of-{world_size()}.safetensors"


def read_group(folder: Path, group: str) -> dict[str, Tensor]:
    """Read a group of whole tensors, for any number of processes that wrote them: shards are split along the first
    axis, in the order of the processes."""
    index = folder / f"{group}.json"
    if not index.is_file():
        return read_weights(folder / f"{group}.safetensors")
    about = read_json(index)
    shards = [read_weights(folder / Path(name).name) for name in about["shards"]]
    parts = {name: [shard[name] for shard in shards if name in shard] for name in about["shapes"]}
    tensors = {name: pieces[0] if len(pieces) == 1 else torch.cat(pieces) for name, pieces in parts.items()}
    for name, shape in about["shapes"].items():
        if list(tensors[name].shape) != shape:
            raise UserError(
                f"{folder}: the shards of {name} have the shape {list(tensors[name].shape)} together, not {shape}"
            )
    return tensors


def checkpoint_folders(folder: Path) -> list[Path]:
    """Return the checkpoints of a run, the newest first."""
    return sorted((folder / "checkpoints").glob("step-*"), reverse=True)


def find_checkpoint(folder: Path) -> tuple[Path | None, list[str]]:
    """Return the newest intact checkpoint, and a message about each newer one, which is damaged."""
    complaints: list[str] = []
    for path in checkpoint_folders(folder):
        fault = find_fault(path)
        if fault is None:
            return path, complaints
        complaints.append(f"{path} is damaged ({fault}) and is skipped")
    return None, complaints


def starts_anew(run: Path | None) -> bool:
    """Whether training starts at step 0: in a new run, or in a run without an intact checkpoint."""
    return run is None or find_checkpoint(run)[0] is None


def find_fault(checkpoint: Path) -> str | None:
    """Return why a checkpoint is damaged, or None."""
    try:
        manifest = read_json(checkpoint / MANIFEST)
    except (UserError, OSError) as error:
        return str(error)
    kinds = {str(name).split(".")[0].split("-")[0] for name in manifest} if isinstance(manifest, dict) else set()
    if not {"training", MODEL, OPTIMISER, CARRIED} <= kinds:
        return f"{MANIFEST} does not list every file"
    for name, expected in manifest.items():
        path = checkpoint / Path(name).name
        if not path.is_file():
            return f"{name} is missing"
        if file_hash(path) != expected:
            return f"{name} has changed since it was written"
    return None


def load_checkpoint(checkpoint: Path, state: TrainingState) -> None:
    """Restore the state of training, on any number of processes."""
    about = read_json(checkpoint / TRAINING)
    format = check_format(about.get("format"), checkpoint / TRAINING)
    is_old = format == 1
    for name, before in about["identity"].items():
        now = state.identity.get(name)
        if now is None or not (
            agrees_with_words(name, before, now) if is_old else agree(current_facts(before["facts"], format), now.facts)
        ):
            then = before if is_old else before["words"]
            raise UserError(
                f"cannot resume from {checkpoint}: the {name} changed since it was written (then {then}; now"
                f" {now and now.words}); restore the earlier {name}, or start a new run"
            )
    load_whole(state.task, read_group(checkpoint, MODEL))
    load_optimiser(state.optimiser, join_optimiser(read_group(checkpoint, OPTIMISER), about["optimiser"]))
    state.schedule.load_state_dict(about["schedule"])
    state.best.load_state_dict(about["best"])
    if state.average is not None and about.get("average") is not None:
        state.average.load_state_dict(about["average"])
        if (checkpoint / f"{AVERAGE}.safetensors").exists() or (checkpoint / f"{AVERAGE}.json").exists():
            means = read_group(checkpoint, AVERAGE)
            state.average.means = {name: shard_of(means[name], p) for name, p in state.average.parameters.items()}
    progress = state.progress
    progress.step, progress.epoch, progress.batch = about["step"], about["epoch"], about["batch"]
    progress.place = about.get("place")
    progress.skipped, progress.halvings = about["skipped"], about.get("halvings", 0)
    progress.seconds, progress.tokens = about.get("seconds", 0.0), about.get("tokens", 0)
    progress.state = None
    if about["carried"]:
        rows = carried_state(state.task, read_group(checkpoint, CARRIED), "0")
        progress.state = cut_rows(rows, world_size())[rank()]


def current_facts(facts: Mapping[str, Any], format: int) -> dict[str, Any]:
    """Return a checkpoint's facts with its settings upgraded from its format to the current one."""
    settings = upgraded({"model": facts.get("settings"), "task": facts.get("task")}, format)
    return {
        **facts,
        **{name: settings[section] for name, section in (("settings", "model"), ("task", "task")) if name in facts},
    }


def load_optimiser(optimiser: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Load an optimiser's state from whole tensors. A tensor with its parameter's shape is sharded like the
    parameter."""
    parameters = [p for group in optimiser.param_groups for p in group["params"]]
    for index, entries in state["state"].items():
        for name, value in entries.items():
            if isinstance(value, Tensor) and value.shape == parameters[index].shape:
                entries[name] = shard_of(value, parameters[index])
    # Whether the step is fused depends on this machine, not on the one that wrote the checkpoint.
    groups = [
        {**saved, "fused": own.get("fused")}
        for saved, own in zip(state["param_groups"], optimiser.param_groups, strict=True)
    ]
    optimiser.load_state_dict({**state, "param_groups": groups})


def named_leaves(tree: Tree, path: str = "") -> dict[str, Tensor]:
    """Return every tensor of a tree by its path, such as `0.1.2`."""
    if isinstance(tree, Tensor):
        return {path: tree}
    parts = () if tree is None else tree.items() if isinstance(tree, dict) else enumerate(tree)
    return {
        name: leaf
        for key, part in parts
        for name, leaf in named_leaves(part, f"{path}.{key}".removeprefix(".")).items()
    }


def carried_state(task: nn.Module, tensors: dict[str, Tensor], path: str) -> State:
    """Rebuild a carried state from its leaves. The task's initial state gives the nesting, but a place that is None
    there may have a tensor."""
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
    """Split an optimiser's state into tensors by name, and the rest as JSON values."""
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
