"""Build the parts of a training run from a config: optimiser, schedule, averages, batches, the compiled and replicated
model."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from clew.core.batches import Batches
from clew.core.config import build_part
from clew.core.files import json_hash
from clew.core.identity import Known
from clew.core.processes import is_distributed, rank
from clew.layers.sequence import Stack
from clew.runs.config import Config, TrainingConfig
from clew.runs.directory import append_metrics
from clew.tasks.learning import Autocast
from clew.training.averaging import AVERAGES
from clew.training.backward import StepOptions
from clew.training.checkpoints import TrainingState
from clew.training.compiled import Carrying, compile_task
from clew.training.freezing import scale_rates, unfreezing
from clew.training.hardware import peak_flops
from clew.training.loader import Loader
from clew.training.loggers import Logger
from clew.training.observers import Best
from clew.training.optimisers import OPTIMISERS
from clew.training.parallel import replicate, shard
from clew.training.precision import resolve_precision
from clew.training.problem import Problem
from clew.training.records import Progress
from clew.training.run_folder import writing
from clew.training.schedules import SCHEDULES
from clew.training.watchers import Watchers


@dataclass
class Trainer:
    """The parts of a training run."""

    settings: TrainingConfig
    folder: Path
    problem: Problem
    state: TrainingState
    batches: Batches
    model: Any
    """The task or its compiled form; evaluation calls it."""
    forward: nn.Module
    """The model, replicated if there are several processes; the training loop calls it."""
    options: StepOptions
    watchers: Watchers
    flops_per_token: float
    peak: float | None
    """The device's peak FLOPs per second, if known."""
    unit: str = "tokens"
    """The unit of the logged speed."""
    loggers: list[Logger] = field(default_factory=list)
    stopped_by: str = ""
    """The callback that ended the run before its last step."""

    @property
    def task(self) -> nn.Module:
        return self.state.task

    @property
    def device(self) -> torch.device:
        return next(self.task.parameters()).device

    def log(self, record: dict[str, Any]) -> None:
        """Add a record to metrics.jsonl, on the first process, and to the other loggers."""
        if rank() == 0:
            with writing("the metrics", self.folder):
                append_metrics(self.folder, record)
        for logger in self.loggers:
            with writing("the events", self.folder):
                logger.add(record)


def trainer_of(
    config: Config, folder: Path, problem: Problem, device: torch.device, autocast: Autocast, watchers: Watchers
) -> Trainer:
    """Build the trainer of a run, at step 0."""
    task = problem.task.to(device)
    known = {**identity(config, task, problem.vocabularies), **problem.identity}
    trainer = build_trainer(config.training, folder, replace(problem, identity=known), config.seed, autocast, watchers)
    scale_rates(trainer.state.optimiser, task, config)
    if (frozen := unfreezing(task, config)) is not None:
        trainer.options = replace(trainer.options, frozen=frozen)
    return trainer


def build_trainer(
    settings: TrainingConfig,
    folder: Path,
    problem: Problem,
    seed: int,
    autocast: Autocast,
    watchers: Watchers,
    *,
    optimiser: torch.optim.Optimizer | None = None,
    as_task: Callable[[Any], Any] | None = None,
) -> Trainer:
    """Build the trainer of a problem, at step 0. `as_task` wraps a model that is not a task."""
    task = problem.task
    device = next(task.parameters()).device
    flops = 6.0 * num_multiplied(task)
    is_sharded = settings.parallel == "fsdp" and is_distributed()
    for part in task.modules():
        if isinstance(part, Stack):
            part.recompute = settings.recompute
    if is_sharded:
        shard(task)
    if optimiser is None:
        optimiser = build_part("optimiser", settings.optimiser, OPTIMISERS, task.parameters(), settings.learning_rate)
    schedule = build_part("schedule", settings.schedule, SCHEDULES, settings.steps)
    if schedule.note:
        watchers.report.say(schedule.note)
    average = build_part("average", settings.average, AVERAGES, task) if settings.average is not None else None
    state = TrainingState(task, optimiser, schedule, Best(settings.patience), Progress(), problem.identity, average)
    many_shapes = settings.batch_tokens is not None
    model: Any = compile_task(task, many_shapes=many_shapes) if settings.compile else task
    if as_task is not None:
        forward = as_task(model)
    elif settings.compile and not is_sharded:
        forward = compile_task(Carrying(task, settings.batching == "streams"), many_shapes=many_shapes)
    else:
        forward = model
    options = StepOptions(
        seed=seed,
        carry=settings.batching == "streams",
        accumulate=settings.accumulate,
        clip_norm=settings.clip_norm,
        clip_value=settings.clip_value,
        norm_penalty=settings.norm_penalty,
        autocast=autocast,
        counts=(task if as_task is None else as_task(task)).counts,
        asked_to_stop=watchers.ask_to_stop,
        capture=settings.capture,
    )
    return Trainer(
        settings,
        folder,
        problem,
        state,
        Loader(problem.batches, settings.workers, pin=device.type == "cuda"),
        model,
        forward if is_sharded else replicate(forward),
        options,
        watchers,
        flops,
        peak_flops(device, resolve_precision(settings.precision, device)),
    )


def identity(config: Config, task: nn.Module, vocabularies: dict[str, Any]) -> dict[str, Known]:
    """Return the facts that must not change when a run is resumed, apart from its data."""
    parameters = sum(p.numel() for p in task.parameters())
    settings = {"settings": config.model.model_dump(mode="json"), "task": config.task.model_dump(mode="json")}
    about = f"{config.model.family} of {parameters:,} parameters, {json_hash(settings)[:8]}"
    model = Known({"parameters": parameters, **settings}, about)
    return {"model": model, **{role: known_vocabulary(vocabulary) for role, vocabulary in vocabularies.items()}}


def known_vocabulary(vocabulary: Any) -> Known:
    facts = {"size": vocabulary.vocabulary, "hash": vocabulary.hash}
    return Known(facts, f"{vocabulary.vocabulary:,} {vocabulary.unit}s, {vocabulary.hash[:8]}")


def num_multiplied(task: nn.Module) -> int:
    """Return the number of parameters that take part in matrix products: all except lookup tables."""
    parameters = sum(p.numel() for p in task.parameters())
    tables: list[Tensor] = getattr(task, "looked_up", list)()
    return parameters - sum(table.numel() for table in tables)
