"""A run without some of its attention heads, written as a run of its own: smaller, and used as any other is."""

import shutil
from collections.abc import Iterable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from torch import nn

from clew.core.errors import UserError, command
from clew.layers.attending.cross_attention import CrossAttention
from clew.layers.attending.heads import AttendingLayer, attending_layers, cut_to, grouped
from clew.layers.attention import SelfAttention
from clew.layers.precision import check_whole
from clew.runs.directory import CODE, ENVIRONMENT, WEIGHTS, append_metrics, check_empty, write_config, write_weights
from clew.runs.embedding import check_merged
from clew.runs.folder.summary import summarise
from clew.runs.folder.vocabularies import save_vocabularies
from clew.runs.loaded import Run
from clew.runs.trust import trust_like


def prunable_layers(run: Run) -> list[AttendingLayer]:
    """The layers whose heads can go; refused where there are none, or where the weights are another run's."""
    check_merged(run.folder, run.config)
    layers = [
        layer
        for layer in attending_layers(run.task)
        if isinstance(layer.layer, (SelfAttention, CrossAttention)) and layer.num_heads
    ]
    if not layers or "heads" not in type(run.config.model).model_fields:
        raise UserError(
            f"{run.folder} has no layers of attention heads to prune; `{command('clew', 'describe', run.folder)}` shows"
            " what it has"
        )
    return layers


def kept_heads(run: Run, off: Iterable[str]) -> dict[str, list[int]]:
    """What `model.heads` says of a run without these heads: for every layer that is not whole, those that it keeps of
    what it was built with."""
    before: Mapping[str, list[int]] = getattr(run.config.model, "heads", None) or {}
    found = dict(before)
    for layer, gone in grouped(run.task, off):
        there = sorted(before.get(layer.name, range(1, layer.num_heads + 1)))
        if gone:
            found[layer.name] = [head for place, head in enumerate(there) if place not in gone]
    return found


def prune_run(run: Run, off: Iterable[str], out: Path, facts: Mapping[str, Any] | None = None) -> Run:
    """Writes a run without the heads of these names. `facts` become its one record of metrics, beside the step of the
    run it was."""
    off = list(off)
    check_empty(out)
    check_whole(run.task, "pruned")
    prunable_layers(run)
    if not off:
        raise UserError("there is no head to prune; name some, or keep a smaller share")
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
            f"cannot write the pruned run to {out}: {error.strerror or error}; choose another place with --out"
        ) from None
    return Run(out, config, run.vocabularies, task)


def pruned_task(run: Run, off: Iterable[str]) -> nn.Module:
    """A copy of the run's task without these heads."""
    task: nn.Module = deepcopy(run.task)
    able = {layer.name for layer in prunable_layers(run)}
    for layer, gone in grouped(task, off):
        if gone and layer.name not in able:
            raise UserError(
                f"layer {layer.name} has one head, which is its whole attention and cannot be pruned; leave it"
            )
        if gone:
            cut_to(layer.layer, [head for head in range(layer.num_heads) if head not in gone])
    return task
