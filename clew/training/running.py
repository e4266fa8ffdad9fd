"""A run under way: all that takes part in it, its evaluations, and the way back to a checkpoint."""

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from clew.core.batches import Batches
from clew.core.config import build_part
from clew.core.errors import UserError
from clew.core.identity import Known
from clew.core.processes import first_alone, is_distributed, rank, world_size
from clew.layers.sequence import Stack
from clew.runs.config import Config, TrainingConfig
from clew.runs.directory import WEIGHTS, append_metrics, read_weights, truncate_metrics, write_weights
from clew.tasks.learning import Autocast
from clew.training.averaging import AVERAGES
from clew.training.callbacks import Callbacks, Evaluated
from clew.training.checkpoints import Training, find_checkpoint, load_checkpoint
from clew.training.compiled import Carrying, compiled
from clew.training.freezing import scale_rates, unfreezing
from clew.training.hardware import peak_flops, peak_memory
from clew.training.loader import Loader
from clew.training.loggers import Logger
from clew.training.observers import Best
from clew.training.optimisers import OPTIMISERS
from clew.training.parallel import replicate, shard, whole_weights
from clew.training.precision import resolved
from clew.training.problem import Problem
from clew.training.records import Record, Standing
from clew.training.report import Report
from clew.training.run_folder import writing
from clew.training.schedules import SCHEDULES
from clew.training.signals import Request


@dataclass
class Running:
    """A run under way: its settings, its place, and all that takes part."""

    settings: TrainingConfig
    seed: int
    folder: Path
    problem: Problem
    training: Training
    batches: Batches
    model: Any
    """The task, or its compiled form: what evaluation runs."""
    forward: nn.Module
    """What the loop runs: the model, spread over the processes where there are several."""
    counts: Callable[[Any], dict[str, Tensor]]
    autocast: Autocast
    request: Request
    report: Report
    flops_per_token: float
    peak: float | None
    loggers: list[Logger] = field(default_factory=list)
    waiting: Callable[[int], Sequence[nn.Parameter]] = lambda step: ()
    """The parameters that a step leaves as they are."""
    unit: str = "tokens"
    """What the loop counts."""
    callbacks: Callbacks = field(default_factory=Callbacks)
    stopped_by: str = ""
    """The callback that ended the run before its last step."""

    def note(self, record: dict[str, Any]) -> None:
        """One more record of what was measured, written by the first process."""
        if rank() == 0:
            with writing("the metrics", self.folder):
                append_metrics(self.folder, record)
        for logger in self.loggers:
            with writing("the events", self.folder):
                logger.add(record)

    @property
    def task(self) -> nn.Module:
        return self.training.task

    @property
    def device(self) -> torch.device:
        return next(self.training.task.parameters()).device


def start(
    config: Config,
    folder: Path,
    problem: Problem,
    device: torch.device,
    autocast: Autocast,
    request: Request,
    report: Report,
) -> Running:
    """Everything that takes part in a config's run, at step 0."""
    task = problem.task.to(device)
    known = {**identity(config, task, problem.vocabularies), **problem.identity}
    running = begin(config.training, config.seed, folder, problem, known, autocast, request, report)
    scale_rates(running.training.optimiser, task, config)
    running.waiting = unfreezing(task, config) or running.waiting
    return running


def begin(
    settings: TrainingConfig,
    seed: int,
    folder: Path,
    problem: Problem,
    known: Mapping[str, Known],
    autocast: Autocast,
    request: Request,
    report: Report,
    *,
    optimiser: torch.optim.Optimizer | None = None,
    as_task: Callable[[Any], Any] | None = None,
) -> Running:
    """Everything that takes part in a problem's training, at step 0. `known` is what a resumed run must share with this
    one; `as_task` puts around the model what makes it a task, where it is none."""
    task = problem.task
    device = next(task.parameters()).device
    flops = 6.0 * counted_parameters(task)
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
        report.say(schedule.note)
    training = Training(
        task,
        optimiser,
        schedule,
        Best(settings.patience),
        Standing(),
        known,
        build_part("average", settings.average, AVERAGES, task) if settings.average is not None else None,
    )
    many_shapes = settings.batch_tokens is not None
    model: Any = compiled(task, many_shapes=many_shapes) if settings.compile else task
    if as_task is not None:
        forward = as_task(model)
    elif settings.compile and not is_sharded:
        forward = compiled(Carrying(task, settings.batching == "streams"), many_shapes=many_shapes)
    else:
        forward = model
    forward = forward if is_sharded else replicate(forward)
    loader = Loader(problem.batches, settings.workers, pin=device.type == "cuda")
    peak = peak_flops(device, resolved(settings.precision, device))
    counts = (task if as_task is None else as_task(task)).counts
    return Running(
        settings,
        seed,
        folder,
        problem,
        training,
        loader,
        model,
        forward,
        counts,
        autocast,
        request,
        report,
        flops,
        peak,
    )


def is_unevaluated(running: Running) -> bool:
    """Whether a run that goes on from this step was interrupted while it was evaluated there."""
    step, evaluated, settings = running.training.standing.step, running.training.best.evaluated, running.settings
    is_due = step > 0 and (step % settings.evaluate_every == 0 or step == settings.steps)
    return is_due and evaluated is not None and evaluated < step


def evaluate_now(running: Running) -> None:
    """An evaluation and what reacts to it; the weights of the best one are the run's. With averaging, those are the
    averaged ones."""
    training, average = running.training, running.training.average
    with average.in_place() if average is not None else nullcontext():
        score = running.problem.judge(
            "valid",
            running.task,
            running.model,
            running.autocast,
            lambda: bool(running.request),
            progress=running.report.evaluating,
        )
        if score is None:
            return
        step = training.standing.step
        training.schedule.observe(score.value)
        is_best = training.best.observe(score.value, step)
        if is_best or training.best.step == 0:
            keep_weights(running)
    if average is not None:
        average.observe(score.value)
    running.note({"step": step, **{f"valid.{name}": value for name, value in score.measures.items()}})
    running.report.evaluated(step, score, is_best)
    running.callbacks.evaluation(Evaluated(step, dict(score.measures), is_best))


def keep_weights(running: Running) -> None:
    """The task's weights as the run's; every process has to ask."""
    weights = whole_weights(running.task)
    if rank() == 0:
        with writing("the weights", running.folder):
            write_weights(running.folder / WEIGHTS, weights)


def go_back(running: Running) -> None:
    """Puts training where the newest whole checkpoint left it; from the start where there is none."""
    folder, training, report = running.folder, running.training, running.report
    checkpoint, complaints = find_checkpoint(folder)
    for complaint in complaints:
        report.say(complaint)
    if checkpoint is not None:
        load_checkpoint(checkpoint, training)
    standing, best = training.standing, training.best

    def truncate() -> None:
        if rank() == 0:
            with writing("the metrics", folder):
                truncate_metrics(folder, standing.step if checkpoint is not None else -1, best.evaluated)

    first_alone(truncate)
    if checkpoint is None:
        return report.say(f"{folder} has no checkpoint yet; starting from step 0")
    report.say(f"going on from step {standing.step}")
    if best.step > 0 and (fault := weights_fault(folder)):
        report.say(
            f"{fault}; the weights of step {standing.step} take the place of those of step {best.step}, the best so far"
        )
        if best.step != standing.step:
            best.step, best.value = standing.step, math.inf
        with training.average.in_place() if training.average is not None else nullcontext():
            keep_weights(running)


def weights_fault(folder: Path) -> str | None:
    """What is wrong with the run's own weights, if anything is."""
    try:
        read_weights(folder / WEIGHTS)
        return None
    except UserError as error:
        return str(error).partition(";")[0]


def identity(config: Config, task: nn.Module, vocabularies: dict[str, Any]) -> dict[str, Known]:
    """What a resumed run must share with the one that was interrupted, besides its data."""
    parameters = sum(p.numel() for p in task.parameters())
    settings = {"settings": config.model.model_dump(mode="json"), "task": config.task.model_dump(mode="json")}
    model = Known(
        {"parameters": parameters, **settings},
        f"{config.model.family} of {parameters:,} parameters, {digest(settings)}",
    )
    return {"model": model, **{role: known_vocabulary(vocabulary) for role, vocabulary in vocabularies.items()}}


def known_vocabulary(vocabulary: Any) -> Known:
    facts = {"size": vocabulary.vocabulary, "hash": vocabulary.hash}
    return Known(facts, f"{vocabulary.vocabulary:,} {vocabulary.unit}s, {vocabulary.hash[:8]}")


def digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]


def log_step(running: Running, record: Record, tokens_per_second: float) -> None:
    measured: dict[str, Any] = {f"train.{name}": value for name, value in record.losses.items()}
    if len(record.counts) > 1:
        measured |= {f"train.{name}_count": count for name, count in record.counts.items()}
    measured |= {"epoch": record.epoch, "gradient_norm": record.gradient_norm, "learning_rate": record.learning_rate}
    measured[f"{running.unit}_per_second"] = round(tokens_per_second)
    if running.peak is not None:
        measured["flop_utilisation"] = round(
            tokens_per_second * running.flops_per_token / (running.peak * world_size()), 4
        )
    if (memory := peak_memory(running.device)) is not None:
        measured["peak_memory"] = memory
    if record.skipped:
        measured["skipped"] = True
    measured["seconds"] = round(running.training.standing.seconds, 3)
    running.note({"step": record.step, **measured})


def counted_parameters(task: nn.Module) -> int:
    """Those that a token is multiplied with: tables that it is only looked up in are not."""
    parameters = sum(p.numel() for p in task.parameters())
    unused: list[Tensor] = getattr(task, "looked_up", list)()
    return parameters - sum(table.numel() for table in unused)
