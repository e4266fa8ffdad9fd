"""A run directory: its files, and how it is named, read and written. Files are JSON or safetensors; nothing is ever
unpickled.

config.json           the resolved config, a format number, and hashes of the config and of the run's permanent files
model.safetensors     the weights of the best evaluation
vocabulary/           every tokenizer and label table, by role
metrics.jsonl         one object per record: the step and the measured values
environment.json      versions and machine
predictions.jsonl     scores of single examples, if an evaluation wrote them (clew.runs.folder.predictions)
lock                  exists while a process writes the run
origin.json           imported runs: the class and the name of the checkpoint
code.py               a copy of the user's code file, if the run used one
checkpoints/          what is needed to resume (clew.training.checkpoints)
"""

import hashlib
import json
import math
import platform
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from clew.core.errors import UserError, shortened
from clew.core.files import (
    LARGEST_WHOLE,
    PARTIAL,
    check_regular,
    file_hash,
    json_hash,
    write_json,
    write_text,
    written_aside,
)
from clew.core.wording import argument
from clew.kernels.quantised_weight import QuantisedWeight
from clew.runs.config import Config, resolve
from clew.runs.folder.lock import LOCK
from clew.runs.folder.run_files import (
    CODE,
    CONFIG,
    ENVIRONMENT,
    FORMAT,
    METRICS,
    VOCABULARY,
    is_run,
    read_metrics,
    read_raw_settings,
)
from clew.runs.settings.fields import differences
from clew.runs.settings.upgrading import upgraded

NUM_LENGTH_BYTES = 8
"""The bytes of a safetensors file before its header, which hold the header's length."""
UNREADABLE = (SafetensorError, OSError, UnicodeDecodeError, RuntimeError, MemoryError)
"""The exceptions of safetensors for a file that it cannot read or map into memory."""


def default_folder(config: Config, runs: Path = Path("runs"), *, again: bool = False) -> tuple[Path, list[str]]:
    """Return the folder of a new run (runs/RECIPE, runs/RECIPE-2, ...) and its differences from the newest run of the
    same recipe. A config that a run already has is refused, unless it is to be trained `again`."""
    folder, number, newest = runs / config.recipe, 1, None
    while folder.exists() and not is_abandoned(folder):
        existing = config_there(folder)
        if existing is not None:
            newest = existing
            if not again and not differences(existing, config):
                raise UserError(
                    f"{folder} is a run with exactly these settings; resume it with {argument('resume', True)}, "
                    f"or start another with {argument('out')} or another seed"
                )
        number += 1
        folder = runs / f"{config.recipe}-{number}"
    return folder, differences(newest, config) if newest is not None else []


def is_abandoned(folder: Path) -> bool:
    """Whether a folder has only the files of a run that was killed before it wrote its config, the last of its
    files."""
    names = (
        {path.name.removesuffix(PARTIAL) for path in folder.iterdir()}
        if folder.is_dir() and not is_run(folder)
        else set()
    )
    return LOCK in names and names <= {LOCK, VOCABULARY, ENVIRONMENT, CODE, CONFIG}


def remove_leftovers(folder: Path) -> None:
    """Delete files that a killed process was writing, and all files of a run without a config."""
    leftovers = [*folder.glob(f"*{PARTIAL}"), *folder.glob(f"*/*{PARTIAL}")]
    leftovers += [folder / VOCABULARY, folder / ENVIRONMENT, folder / CODE] if is_abandoned(folder) else []
    for path in leftovers:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def check_empty(out: Path) -> None:
    """Refuse an output folder that is not empty."""
    if is_run(out):
        raise UserError(f"{out} is a run already; choose another folder with {argument('out')}")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} exists and is not an empty folder; choose another with {argument('out')}")


def write_config(folder: Path, config: Config) -> None:
    """Write the config, the last of a new run's files: it has the hashes of the others, and its own.

    No manifest holds its hash: the config is rewritten when a run continues with more steps, and two files cannot be
    replaced atomically. Without a hash a flipped digit in `num_heads` would load without an error.
    """
    content = {"format": FORMAT, **config.model_dump(mode="json"), "files": hashes(folder)}
    write_json(folder / CONFIG, {**content, "sha256": json_hash(content)})


def read_config(folder: Path) -> Config:
    settings, _ = read_settings(folder)
    try:
        return resolve(settings)
    except UserError as error:
        raise UserError(f"{folder / CONFIG}: {error}") from None


def read_settings(folder: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the config's fields, upgraded to the current format, and the hashes of the run's other files (empty for
    old runs, which did not record them)."""
    settings, format, files = read_raw_settings(folder)
    return upgraded(settings, format), files


def hashes(folder: Path) -> dict[str, str]:
    """Return the hashes of the files that are written once, at the start of a run."""
    paths = [path for path in (*sorted((folder / VOCABULARY).glob("*")), folder / CODE) if path.is_file()]
    for path in paths:
        if path.stat().st_size > LARGEST_WHOLE:
            raise UserError(
                f"{path} has {path.stat().st_size:,} bytes, too many for a vocabulary; copy it again, or train again"
            )
    return {path.relative_to(folder).as_posix(): file_hash(path) for path in paths}


def check_files(folder: Path) -> None:
    """Refuse a run whose tokenizers or code differ from those it was trained with."""
    _, expected = read_settings(folder)
    actual = hashes(folder)
    for name, digest in expected.items():
        if actual.get(name) != digest:
            what = "is damaged: it differs from the file that the run was trained with"
            raise UserError(
                f"{folder / name} {what if name in actual else 'is missing'}; copy it again, or train again"
            )


def config_there(folder: Path) -> Config | None:
    """Return a run's config, or None if it cannot be read: it has another format, or parts from a user's code file."""
    try:
        return read_config(folder)
    except UserError:
        return None


def write_environment(folder: Path, device: torch.device) -> None:
    """Write the versions and the machine that the run was trained with, so that its results can be interpreted."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    facts = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "platform": platform.platform(),
        "device": str(device),
    }
    write_json(folder / ENVIRONMENT, {**facts, "hardware": name, "threads": torch.get_num_threads()})


def append_metrics(folder: Path, record: Mapping[str, Any]) -> None:
    with (folder / METRICS).open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


def truncate_metrics(folder: Path, step: int, evaluated: int | None = None) -> None:
    """Drop the records after the step that training resumes from, and the summary of a run that had ended, since it
    will end again. Evaluations after the step `evaluated` are dropped too."""

    def is_kept(record: dict[str, Any]) -> bool:
        last = step if evaluated is None or "valid.loss" not in record else min(step, evaluated)
        return record.get("step", 0) <= last and "best.step" not in record

    kept = [json.dumps(record) for record in read_metrics(folder) if is_kept(record)]
    write_text(folder / METRICS, "".join(line + "\n" for line in kept))


def write_weights(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors as safetensors with a hash of their content, first to a temporary file that is then renamed."""
    if any(isinstance(tensor, QuantisedWeight) for tensor in tensors.values()):
        raise UserError(f"{path}: int8 and int4 weights cannot be saved; load the run without a precision")
    contiguous = {name: tensor.detach().to("cpu").contiguous().clone() for name, tensor in tensors.items()}
    with written_aside(path) as aside:
        try:
            metadata = {"format": "pt", "sha256": tensors_hash(contiguous)}
            save_file(contiguous, aside, metadata)
            put_in_order(aside, metadata)
        except SafetensorError as error:
            raise OSError(f"{path.name}: {str(error).removeprefix('Error while serializing: ')}") from None


def put_in_order(path: Path, metadata: Mapping[str, str]) -> None:
    """Write the metadata of a safetensors file in the given order: safetensors writes its two entries in a random one,
    and equal weights should be equal files. The header keeps its length."""
    ordered, reverse = (
        json.dumps({"__metadata__": dict(entries)}, separators=(",", ":")).removesuffix("}").encode()
        for entries in (metadata.items(), reversed(list(metadata.items())))
    )
    with path.open("r+b") as file:
        file.seek(NUM_LENGTH_BYTES)
        if file.read(len(reverse)) == reverse:
            file.seek(NUM_LENGTH_BYTES)
            file.write(ordered)


@contextmanager
def open_weights(path: Path) -> Iterator[Any]:
    """Open a weights file without reading its tensors; a file that cannot be read raises a one-sentence UserError."""
    check_regular(path)
    try:
        with safe_open(path, "pt") as file:
            yield file
    except FileNotFoundError:
        raise UserError(
            f"{path} is missing; the run has not reached its first evaluation, or was copied incompletely"
        ) from None
    except UNREADABLE as error:
        raise UserError(
            f"{path} cannot be read as safetensors: {shortened(str(error), 150)}; copy the run again"
        ) from None


def read_weights(path: Path) -> dict[str, Tensor]:
    with open_weights(path) as file:
        expected = (file.metadata() or {}).get("sha256")
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if expected is not None and tensors_hash(tensors) != expected:
        raise UserError(
            f"{path} is damaged: its content has changed since it was written; copy it again, or resume the run with"
            f" {argument('resume', True)}"
        )
    return tensors


def num_values(path: Path) -> int:
    """Return the number of values in a weights file, from its header."""
    with open_weights(path) as file:
        return sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118


def tensors_hash(tensors: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 of names, shapes and every byte; safetensors itself would not notice a flipped bit."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def keep_code(folder: Path, code: Path) -> None:
    """Copy the user's code file into the run; it is never loaded automatically."""
    shutil.copyfile(code, folder / CODE)


def check_code(folder: Path, code: Path | None) -> None:
    """Check that the user has named the code file that the run was trained with, if it was trained with one."""
    copy = folder / CODE
    if not copy.exists():
        return
    if code is None:
        raise UserError(
            f"{folder} was trained with a user's code, which is never loaded automatically; review {copy} "
            f"and pass {argument('code', str(copy))}"
        )
    if file_hash(code) != file_hash(copy):
        raise UserError(
            f"{code} is not the file that {folder} was trained with; use its copy with"
            f" {argument('code', str(copy))}, or train again"
        )
