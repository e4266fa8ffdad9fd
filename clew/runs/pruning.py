"""Prune attention heads: write a smaller run without them, which is used like any other run."""

import shutil
from collections.abc import Iterable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from torch import nn

from clew.core.errors import UserError, command
from clew.core.wording import argument
from clew.layers.attending.cross_attention import CrossAttention
from clew.layers.attending.heads import AttendingLayer, attending_layers, cut_to, grouped
from clew.layers.attention import SelfAttention
from clew.layers.precision import check_whole
from clew.runs.directory import append_metrics, check_empty, write_config, write_weights
from clew.runs.embedding import check_merged
from clew.runs.folder.run_files import CODE, ENVIRONMENT, WEIGHTS
from clew.runs.folder.summary import summarise
from clew.runs.folder.vocabularies import save_vocabularies
from clew.runs.loaded import Run
from clew.runs.trust import trust_like


def prunable_layers(run: Run) -> list[AttendingLayer]:
    """Return the layers whose heads can be pruned; refuse a run without any, and an adapter."""
    check_merged(run.folder, run.config)
    layers = [
        layer
        for layer in attending_layers(run.task)
        if isinstance(layer.layer, (SelfAttention, CrossAttention)) and layer.num_heads
    ]
    if not layers or "heads" not in type(run.config.model).model_fields:
        raise UserError(
            f"{run.folder} has no attention heads to prune; `{command('clew', 'describe', run.folder)}` shows its"
            " layers"
        )
    return layers


def kept_heads(run: Run, off: Iterable[str]) -> dict[str, list[int]]:
    """Return the value of `model.heads` for a run without these heads: for every pruned layer, the heads that it keeps,
    numbered as in the unpruned model."""
    before: Mapping[str, list[int]] = getattr(run.config.model, "heads", None) or {}
    heads = dict(before)
    for layer, pruned in grouped(run.task, off):
        current = sorted(before.get(layer.name, range(1, layer.num_heads + 1)))
        if pruned:
            heads[layer.name] = [head for place, head in enumerate(current) if place not in pruned]
    return heads


def prune_run(run: Run, off: Iterable[str], out: Path, facts: Mapping[str, Any] | None = None) -> Run:
    """Write a run without the named heads. Its only metrics record has the original run's step and `facts`."""
    off = list(off)
    check_empty(out)
    check_whole(run.task, "pruned")
    prunable_layers(run)
    if not off:
        raise UserError("no heads to prune; name some, or keep a smaller share")
    kept = kept_heads(run, off)
    config = run.config.model_copy(update={"model": run.config.model.model_copy(update={"heads": kept})})
    task = pruned_task(run, off)
    step = summarise(run.folder).step
    try:
        out.mkdir(parents=True, exist_ok=True)
        save_vocabularies(out, run.vocabularies)
        for name in (ENVIRONMENT, CODE):
            if (run.folder / name).is_file():
                shutil.copyfile(run.folder / name, out / name)
        write_weights(out / WEIGHTS, task.state_dict())
        append_metrics(
            out, {"step": step, "best.step": step, **(facts or {}), "pruned": {"from": str(run.folder), "off": off}}
        )
        write_config(out, config)
        trust_like(out, [run.folder])
    except OSError as error:
        raise UserError(
            f"cannot write the pruned run to {out}: {error.strerror or error}; choose another folder with"
            f" {argument('out')}"
        ) from None
    return Run(out, config, run.vocabularies, task)


def pruned_task(run: Run, off: Iterable[str]) -> nn.Module:
    """Return a copy of the run's task without these heads."""
    task: nn.Module = deepcopy(run.task)
    prunable = {layer.name for layer in prunable_layers(run)}
    for layer, pruned in grouped(task, off):
        if pruned and layer.name not in prunable:
            raise UserError(f"layer {layer.name} has only one head, which cannot be pruned; leave it out")
        if pruned:
            cut_to(layer.layer, [head for head in range(layer.num_heads) if head not in pruned])
    return task
