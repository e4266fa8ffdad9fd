"""Checkpoints: all that training needs to go on to the bit, as safetensors and JSON.

    checkpoints/step-00001000/
        model.safetensors       weights
        optimiser.safetensors   the optimiser's tensors
        average.safetensors     averaged weights, where there are any
        carried.safetensors     the carried state of every row
        training.json           step, data position, schedule, best value, the optimiser's numbers, what must not change
        manifest.json           SHA-256 of every file above, written last

Where tensors are sharded each process writes its own part, model-1-of-2.safetensors, and model.json says which rows of
each tensor stand where. A checkpoint is written in a folder aside, flushed and renamed, so that one which has its name
is whole; its hashes are looked at all the same.
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
from clew.layers.adapters import own_weights
from clew.runs.directory import check_format, read_weights, write_weights
from clew.runs.folder.run_files import FORMAT
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
    """The parts that a checkpoint holds."""

    task: nn.Module
    optimiser: torch.optim.Optimizer
    schedule: Constant
    best: Best
    progress: Progress
    identity: Mapping[str, Known]
    """What must not change under a resume, by name: model, tokenizer, data, batches."""
    average: Average | None = None


def save_checkpoint(folder: Path, state: TrainingState, keep: int = 2) -> Path:
    """Writes checkpoints/step-N below the run's folder and drops all but the newest `keep`. Every process has to call
    it."""
    name = f"step-{state.progress.step:08d}"
    aside, final = folder / "checkpoints" / f".{name}{PARTIAL}", folder / "checkpoints" / name
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
            aside.mkdir(parents=True)

    def write() -> None:
        for group, content in groups.items():
            write_group(aside, group, content)

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
        write_json(aside / TRAINING, about)
        write_json(aside / MANIFEST, {path.name: file_hash(path) for path in sorted(aside.iterdir())})
        flush(aside)
        drop(final)
        aside.replace(final)
        flush(final.parent)
        there = checkpoint_folders(folder)
        newer = [path for path in there if path.name > name]  # damaged, since training went back behind them
        for path in [*newer, *there[len(newer) + keep :]]:
            drop(path)

    for stage in (begin, write, end):
        all_together(stage, folder)
    return final


def all_together(stage: Callable[[], None], folder: Path) -> None:
    """A stage of a save on every process: where it fails on one, it fails on all of them, and none waits for
    another."""
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
    """A disk that is full or may not be written to: no fault of the settings that were trained."""


def cannot_write(what: str, folder: Path, error: OSError | None) -> DiskError:
    """The sentence for a disk that is full or may not be written to, in the middle of a run; without an error, it was
    another process's."""
    why = (error.strerror or str(error)) if error is not None else "another process says why"
    newest = next((path.name for path in checkpoint_folders(folder)), "the start: nothing was saved yet")
    return DiskError(
        f"{what} cannot be written below {folder}: {why}; make room there, or allow writing to it, and go on by"
        f" --resume from {newest}"
    )


def drop(checkpoint: Path) -> None:
    """Removes a checkpoint, if it can be; one that has its name stays whole to the last."""
    gone = checkpoint.with_name(f".{checkpoint.name}.dropped{PARTIAL}")
    with suppress(OSError):
        checkpoint.replace(gone)
    shutil.rmtree(gone, ignore_errors=True)


def drop_partials(folder: Path) -> None:
    for partial in (folder / "checkpoints").glob(f".*{PARTIAL}"):
        shutil.rmtree(partial, ignore_errors=True)


def write_group(folder: Path, group: str, tensors: Mapping[str, Tensor]) -> None:
    """Tensors of one kind: one file by the first process, or one a process where some are sharded."""
    if not any(isinstance(tensor, DTensor) for tensor in tensors.values()):
        if rank() == 0:
            write_weights(folder / f"{group}.safetensors", tensors)
        return
    mine = {name: local(tensor) for name, tensor in tensors.items() if isinstance(tensor, DTensor) or rank() == 0}
    write_weights(
        folder / shard_name(group, rank()),
        {name: part for name, part in mine.items() if part.numel() or part.dim() == 0},
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
    """All tensors of one kind, whole, however many processes wrote them: shards are cut along the first axis, in the
    processes' order."""
    index = folder / f"{group}.json"
    if not index.is_file():
        return read_weights(folder / f"{group}.safetensors")
    about = read_json(index)
    shards = [read_weights(folder / Path(name).name) for name in about["shards"]]
    parts = {name: [shard[name] for shard in shards if name in shard] for name in about["shapes"]}
    found = {name: pieces[0] if len(pieces) == 1 else torch.cat(pieces) for name, pieces in parts.items()}
    for name, shape in about["shapes"].items():
        if list(found[name].shape) != shape:
            raise UserError(f"{folder}: the shards of {name} have {list(found[name].shape)} together, not {shape}")
    return found


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


def starts_anew(run: Path | None) -> bool:
    """Whether training begins at step 0: in a new run, or in one that has no whole checkpoint yet."""
    return run is None or find_checkpoint(run)[0] is None


def find_fault(checkpoint: Path) -> str | None:
    try:
        manifest = read_json(checkpoint / MANIFEST)
    except (UserError, OSError) as error:
        return str(error)
    kinds = {str(name).split(".")[0].split("-")[0] for name in manifest} if isinstance(manifest, dict) else set()
    if not {"training", MODEL, OPTIMISER, CARRIED} <= kinds:
        return f"{MANIFEST} does not name every file"
    for name, expected in manifest.items():
        path = checkpoint / Path(name).name
        if not path.is_file():
            return f"{name} is missing"
        if file_hash(path) != expected:
            return f"{name} is not what was written"
    return None


def load_checkpoint(checkpoint: Path, state: TrainingState) -> None:
    """Puts every part back as it was, on any number of processes."""
    about = read_json(checkpoint / TRAINING)
    format = check_format(about.get("format"), checkpoint / TRAINING)
    is_old = format == 1
    for name, before in about["identity"].items():
        now = state.identity.get(name)
        if now is None or not (
            agrees_with_words(name, before, now) if is_old else agree(told_now(before["facts"], format), now.facts)
        ):
            then = before if is_old else before["words"]
            raise UserError(
                f"the {name} is not what {checkpoint} was written with (then {then}; now {now and now.words}), so the"
                f" run cannot go on from it; bring the {name} back as it was, or start a new run"
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


def told_now(facts: Mapping[str, Any], format: int) -> dict[str, Any]:
    """Facts that a checkpoint of any format has kept, the settings among them as this format has them."""
    settings = upgraded({"model": facts.get("settings"), "task": facts.get("task")}, format)
    return {
        **facts,
        **{name: settings[section] for name, section in (("settings", "model"), ("task", "task")) if name in facts},
    }


def load_optimiser(optimiser: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """An optimiser's state from whole tensors: those shaped as their parameter are cut as it is."""
    parameters = [p for group in optimiser.param_groups for p in group["params"]]
    for index, entries in state["state"].items():
        for name, value in entries.items():
            if isinstance(value, Tensor) and value.shape == parameters[index].shape:
                entries[name] = shard_of(value, parameters[index])
    # Which kernel steps the parameters is this machine's choice, not that of the one before.
    groups = [
        {**saved, "fused": own.get("fused")}
        for saved, own in zip(state["param_groups"], optimiser.param_groups, strict=True)
    ]
    optimiser.load_state_dict({**state, "param_groups": groups})


def named_leaves(tree: Tree, path: str = "") -> dict[str, Tensor]:
    """Every tensor of a tree by where it stands, such as `0.1.2`."""
    if isinstance(tree, Tensor):
        return {path: tree}
    parts = () if tree is None else tree.items() if isinstance(tree, dict) else enumerate(tree)
    return {
        name: leaf
        for key, part in parts
        for name, leaf in named_leaves(part, f"{path}.{key}".removeprefix(".")).items()
    }


def carried_state(task: nn.Module, tensors: dict[str, Tensor], path: str) -> State:
    """A carried state from its leaves: the task's initial state tells how they are nested, though a place empty there
    may be filled."""
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
