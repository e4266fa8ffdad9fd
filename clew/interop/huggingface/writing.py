"""Write a run as a folder that `transformers` loads without custom code: config, weights, tokenizer."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from clew.core.errors import UserError, command, few_of
from clew.core.files import read_json, write_json
from clew.interop.huggingface import ARCHITECTURES, BERT, BY_FAMILY, DISTILBERT
from clew.interop.huggingface.architecture import BIAS, Architecture, Outgoing
from clew.interop.huggingface.folders import CONFIG, GENERATION, INDEX, WEIGHTS
from clew.interop.huggingface.forms import FORMS
from clew.interop.huggingface.tokenizer_writing import other_formats, write_tokenizer
from clew.interop.weight_maps import their_tensors
from clew.layers.adapters import is_adapted
from clew.runs.folder.run_files import ORIGIN
from clew.runs.loaded import Run
from clew.tasks.uses.generation import ends_of
from clew.text.labels import Labels

SHARD = 5 * 10**9
"""The maximum size of a weights file in bytes."""


def write_huggingface(run: Run, folder: Path, *, shard: int = SHARD) -> None:
    """Write a run into a folder. If none of their classes computes the same, a UserError names the difference."""
    architecture, name = architecture_for(run)
    model, task = run.config.model, run.config.task
    body = run.task.body
    if is_adapted(run.task):
        raise UserError(
            f"{run.folder} is an adapter of another run's weights; "
            f"`{command('clew', 'runs', 'merge', run.folder, '--out', 'DIR')}` merges both into one run"
        )
    if getattr(model, "heads", None):
        raise UserError(
            f"{name} has the same number of heads in every layer, but this run's were pruned; {other_formats()}"
        )
    if not run.config.embedding.is_plain:
        raise UserError(
            f"{name} embeds tokens only, but this run reads more (the section embedding); {other_formats()}"
        )
    tokenizer = run.vocabularies.get("tokenizer") or run.vocabularies["target"]
    labels = next((each for each in run.vocabularies.values() if isinstance(each, Labels)), None)
    config = architecture.config(model, task, Outgoing(name, tokenizer, labels))
    tensors = theirs_of(run, architecture, name)
    name = config.get("architectures", [name])[0]
    banned = config.pop("bad_words_ids", None)
    written = {
        "architectures": [name],
        **config,
        "vocab_size": getattr(body, "source_vocabulary", body.vocabulary),
        "dtype": "float32",
    }
    write_json(folder / CONFIG, written)
    if (generation := FORMS[task.name].generation) is not None:
        fields = generation_config(run, {**written, "bad_words_ids": banned})
        write_json(folder / GENERATION, {**fields, **generation(run.config.decoding)})
    write_tensors(folder, tensors, shard)
    write_tokenizer(folder, run.vocabularies, written)


def architecture_for(run: Run) -> tuple[Architecture, str]:
    """Return the architecture of a run's body, and the name of its class with the run's task."""
    family, task = run.config.model.family, run.config.task.name
    if family not in BY_FAMILY:
        raise UserError(
            f"transformers has no architecture for the family {family}, only for {', '.join(BY_FAMILY)};"
            f" {other_formats()}"
        )
    architecture = BY_FAMILY[family]
    origin = run.folder / ORIGIN
    about = read_json(origin) if origin.is_file() else {}
    was = about.get("architecture") if isinstance(about, dict) else None
    if family in ("bert", "llama") and isinstance(was, str):
        architecture = next(
            (candidate for candidate in ARCHITECTURES if was in candidate.names and candidate is not DISTILBERT),
            architecture,
        )
    if architecture is BERT and run.config.model.num_segments == 0:  # type: ignore[attr-defined]
        architecture = DISTILBERT
    if task not in architecture.heads:
        raise UserError(
            f"transformers has no class for the task {task} over a {family}, only for {', '.join(architecture.heads)}"
        )
    names = architecture.heads[task].names
    return architecture, was if was in names else names[0]


def theirs_of(run: Run, architecture: Architecture, name: str) -> dict[str, Tensor]:
    """Return the tensors under their names. A tensor without a counterpart raises a UserError."""
    ours = {key: tensor.detach().cpu().to(torch.float32) for key, tensor in run.task.state_dict().items()}
    entries = architecture.all_entries(run.config.model, run.config.task)
    mapped = {key for entry in entries for key in entry.ours}
    added = [key for key in ours if any(re.fullmatch(pattern, key) for pattern in architecture.added)]
    if unknown := sorted(set(ours) - mapped - set(added)):
        raise UserError(f"{name} has no counterpart of this run's {few_of(unknown)}; {other_formats()}")
    assert mapped <= set(ours), sorted(mapped - set(ours))
    if {"answer.mean", "answer.scale"} <= set(added):  # ours predicts standardised numbers, theirs raw numbers
        ours["output.weight"] = ours["output.weight"] * ours["answer.scale"]
        ours["output.bias"] = ours["output.bias"] * ours["answer.scale"] + ours["answer.mean"]
    if "answer.temperature" in added:  # calibrates our probabilities; theirs have no temperature
        ours |= {name: ours[name] / ours["answer.temperature"] for name in ("output.weight", BIAS)}
    if BIAS in added and ours[BIAS].any():
        raise UserError(f"{name} has no bias in its output layer, but this run's is not 0")
    return their_tensors(
        entries, ours if architecture.reorder is None else architecture.reorder(run.config.model, ours)
    )


def generation_config(run: Run, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tokens that begin and end generated texts."""
    names = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id", "bad_words_ids")
    fields = {name: config[name] for name in names if config.get(name) is not None}
    decoding = run.config.decoding
    if isinstance(decoding.stop, (str, list)):
        ends = ends_of(run.tokenizer, decoding)
        fields["eos_token_id"] = ends if len(ends) > 1 else ends[0]
    if decoding.forced_end:
        fields["forced_eos_token_id"] = fields.get("eos_token_id")
    return fields


def write_tensors(folder: Path, tensors: dict[str, Tensor], shard: int) -> None:
    """Write one file, or several with an index if the weights are large."""
    shards: list[dict[str, Tensor]] = [{}]
    size = 0
    for name, tensor in tensors.items():
        if shards[-1] and size + tensor.nbytes > shard:
            shards.append({})
            size = 0
        shards[-1][name] = tensor
        size += tensor.nbytes
    if len(shards) == 1:
        save_file(tensors, folder / WEIGHTS, {"format": "pt"})
        return
    files = [f"model-{number:05}-of-{len(shards):05}.safetensors" for number in range(1, len(shards) + 1)]
    for file, part in zip(files, shards, strict=True):
        save_file(part, folder / file, {"format": "pt"})
    total = sum(tensor.nbytes for tensor in tensors.values())
    weight_map = {name: file for file, part in zip(files, shards, strict=True) for name in part}
    write_json(folder / INDEX, {"metadata": {"total_size": total}, "weight_map": weight_map})
