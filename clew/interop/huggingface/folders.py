"""Read a folder written by `transformers`: its config, and its tensors in one or several safetensors files. Nothing is
unpickled."""

import math
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from clew.core.errors import UserError, named, shortened, shown
from clew.core.files import check_regular, read_json
from clew.interop.huggingface.fields import Fields
from clew.runs.directory import UNREADABLE

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
GENERATION = "generation_config.json"
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.h5", "*.msgpack")
READABLE = {"F64", "F32", "F16", "BF16"}
OLD_NAMES = {".gamma": ".weight", ".beta": ".bias"}
"""The names of norm weights in the first published models, and their current names."""


class Checkpoint:
    """The config, and the names and shapes of all tensors. A tensor is read on demand, as float32."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.config = Fields(read_object(folder / CONFIG), folder / CONFIG)
        self.files: dict[str, tuple[Path, str]] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        for path in weight_files(folder):
            for name, kind, shape in tensors_in(path):
                self.shapes[modern(name)] = shape
                if modern(name) in self.files:
                    raise UserError(
                        f"{path}: the tensor {name} is also in {self.files[modern(name)][0].name}; copy the checkpoint"
                        " again"
                    )
                self.files[modern(name)] = path, name
                self.config.largest = max(self.config.largest or 1, *shape, 1)
                if kind not in READABLE and not kind.startswith(("I", "U", "BOOL")):
                    raise UserError(
                        f"{path}: the tensor {name} has the type {kind}; clew reads {', '.join(sorted(READABLE))}"
                    )

    @property
    def num_values(self) -> int:
        """The number of values in all tensors."""
        return sum(map(math.prod, self.shapes.values()))

    def rename(self, names: dict[str, str]) -> None:
        self.files = {names.get(name, name): place for name, place in self.files.items()}
        self.shapes = {names.get(name, name): shape for name, shape in self.shapes.items()}

    def __contains__(self, name: str) -> bool:
        return name in self.files

    def read(self, name: str) -> Tensor:
        path, theirs = self.files[name]
        try:
            with safe_open(path, "pt") as file:
                tensor = file.get_tensor(theirs)
        except UNREADABLE as error:
            raise cut_short(path, error) from None
        if not tensor.is_floating_point():
            raise UserError(
                f"{path}: the weights {theirs} are quantised ({str(tensor.dtype).removeprefix('torch.')}); use a"
                " checkpoint in floats"
            )
        return tensor.to(torch.float32)


def weight_files(folder: Path) -> list[Path]:
    """Return the files that hold the tensors."""
    if (folder / WEIGHTS).is_file():
        return [inside(folder, WEIGHTS, folder / WEIGHTS)]
    if not (folder / INDEX).is_file():
        pickles = sorted(path.name for pattern in PICKLES for path in folder.glob(pattern))
        raise (
            pickled(folder / pickles[0])
            if pickles
            else UserError(f"{folder} has no {WEIGHTS}, and no {INDEX} with shards; copy the weights into it")
        )
    weights = read_object(folder / INDEX).get("weight_map")
    if not isinstance(weights, dict) or not weights or not all(isinstance(name, str) for name in weights.values()):
        raise UserError(f"{folder / INDEX} has no weight_map from tensors to files; copy it again")
    files = []
    for name in sorted(set(weights.values())):
        path = inside(folder, name, folder / INDEX)
        if not path.is_file():
            raise UserError(f"{folder / INDEX} names {name}, which is missing; copy all shards of the checkpoint")
        if path.suffix != ".safetensors":
            raise pickled(path)
        files.append(path)
    for path in files:
        stored_names = {name for name, *_ in tensors_in(path)}
        if lacking := sorted(name for name, file in weights.items() if file == path.name and name not in stored_names):
            raise UserError(f"{path} has no tensor {lacking[0]}, which {INDEX} lists; copy the shards again")
    return files


def inside(folder: Path, name: str, source: Path) -> Path:
    """Return the path of a checkpoint's file. It must be in the folder or, in the cache of the Hugging Face hub, whose
    files are links, in the cache of the same model."""
    root = folder.resolve()
    if root.parent.name == "snapshots":
        root = root.parent.parent
    path = folder / name
    if Path(name).is_absolute() or ".." in Path(name).parts or not Path(os.path.realpath(path)).is_relative_to(root):
        raise UserError(
            f"{source} names {named(name)}, which is outside {folder}; a checkpoint's files must be in its own folder"
        )
    return path


def tensors_in(path: Path) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """Yield names, types and shapes from the header of a file."""
    check_regular(path)
    try:
        with safe_open(path, "pt") as file:
            for name in file.keys():  # noqa: SIM118
                part = file.get_slice(name)
                yield name, part.get_dtype(), tuple(part.get_shape())
    except UNREADABLE as error:
        raise cut_short(path, error) from None


def cut_short(path: Path, error: Exception) -> UserError:
    return UserError(
        f"{path} cannot be read as safetensors ({shortened(str(error).strip(), 150)}); it is damaged or cut short: copy"
        " it again"
    )


def pickled(path: Path) -> UserError:
    """Return the error for a file that may run code when it is loaded; it tells how to convert the file."""
    folder = path.parent
    names = read_object(folder / CONFIG).get("architectures") if (folder / CONFIG).is_file() else None
    name = names[0] if isinstance(names, list) and names else None
    if not isinstance(name, str) or not name.isidentifier():  # the name becomes part of a command
        return UserError(
            f"{path} may be a pickle, which can run code when loaded; if you trust it, load it with the program that"
            " wrote it and save its tensors with safetensors.torch.save_file(tensors, 'model.safetensors')"
        )
    code = f"import sys, transformers; transformers.{name}.from_pretrained(sys.argv[1]).save_pretrained(sys.argv[1])"
    return UserError(
        f"{path} may be a pickle, which can run code when loaded; if you trust it, convert it to {WEIGHTS} with: "
        + shlex.join(["python", "-c", code, str(folder)])
    )


def read_object(path: Path) -> dict[str, Any]:
    try:
        content = read_json(inside(path.parent, path.name, path.parent))
    except UserError as error:
        raise UserError(f"{error}; a Hugging Face checkpoint needs it" if not path.exists() else str(error)) from None
    if not isinstance(content, dict):
        raise UserError(f"{path} should hold a JSON object, not {shown(content)}; copy it again")
    return content


def modern(name: str) -> str:
    for old, new in OLD_NAMES.items():
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name
