"""Train a run from its config to its result: read the data, build the model, train, evaluate, save."""

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from clew.core.batches import Batches
from clew.core.config import build_part, check_part
from clew.core.devices import choose_device
from clew.core.errors import UserError, counted
from clew.core.processes import first_alone, is_distributed, local_rank, rank, world_size
from clew.layers.adapters import own_weights
from clew.layers.recurrent import Recurrent
from clew.metrics.score import Score
from clew.runs.build import build_task
from clew.runs.config import Config, TrainingConfig
from clew.runs.directory import write_weights
from clew.runs.folder.predictions import write_predictions
from clew.runs.folder.run_files import WEIGHTS, is_run
from clew.runs.folder.summary import summarise
from clew.runs.folder.weights import load_weights
from clew.runs.loaded import Run
from clew.training.averaging import AVERAGES
from clew.training.callbacks import Callback, Callbacks, Ended
from clew.training.checkpoints import checkpoint_folders
from clew.training.driving import drive, open_loggers, restore_checkpoint
from clew.training.freezing import check_unfreezing, freeze
from clew.training.loggers import check_loggers
from clew.training.optimisers import OPTIMISERS
from clew.training.precision import precision, resolve_precision
from clew.training.problem import Problem
from clew.training.problems import prepare_problem
from clew.training.report import Report, Silence
from clew.training.run_folder import RunFolder, locked_run, make_folder, writing
from clew.training.schedules import SCHEDULES
from clew.training.signals import Interrupted, Request, stop_requests
from clew.training.trainer import Trainer, trainer_of
from clew.training.watchers import Watchers


@dataclass(frozen=True)
class Result:
    """A finished run: the model with the weights of the best evaluation, and its scores."""

    run: Run
    step: int
    best_step: int
    valid: Score
    test: Score | None
    seconds: float
    flops: float


def train_run(
    config: Config, folder: RunFolder, report: Report | None = None, callbacks: Sequence[Callback] = ()
) -> Result:
    """Train a run in a folder. On a signal, save a checkpoint and raise `Interrupted`.

    With several processes, each of them calls this function; only the first writes and reports.
    """
    report = report if report is not None and rank() == 0 else Silence()
    check_training(config.training)
    with watch_training(folder.path, report, callbacks) as watchers:
        device, reason = own_device(config.device)
        config, problem = prepare(config, folder, watchers)
        describe(config, problem, folder.path, device, reason, report)
        first_alone(lambda: make_folder(folder.path))
        with locked_run(folder.path), precision(config.training, device) as autocast:
            if rank() == 0:
                folder.prepare(config, problem.vocabularies, device)
            trainer = trainer_of(config, folder.path, problem, device, autocast, watchers)
            if folder.resume:
                restore_checkpoint(trainer)
            report.stage("compiling" if config.training.compile else "the first step")
            with open_loggers(trainer, folder.resume):
                drive(trainer)
                report.stage("the final evaluation")
                result = finish(trainer, config)
        raise_if_interrupted(watchers.request, folder.path, "after the final evaluation")
        ended = Ended(result.step, result.best_step, dict(result.valid.measures), result.seconds, folder.path)
        watchers.callbacks.end(ended)
        return result


@contextmanager
def watch_training(folder: Path, report: Report, callbacks: Sequence[Callback]) -> Iterator[Watchers]:
    """Within this context the first signal requests a stop, and the second raises `Interrupted` with a message that
    names the last checkpoint."""
    with stop_requests() as request:
        try:
            yield Watchers(request, report, Callbacks(callbacks))
        except KeyboardInterrupt:
            last = next((f"the last checkpoint is {path}" for path in checkpoint_folders(folder)), "nothing was saved")
            raise Interrupted(request.number or signal.SIGINT, f"stopped at once; {last}", folder) from None


def prepare(config: Config, folder: RunFolder, watchers: Watchers) -> tuple[Config, Problem]:
    """Read the data and build the model. In the returned config, `training.epochs` is converted to steps."""
    report, request = watchers.report, watchers.request

    def progress(done: int, total: int) -> None:
        report.encoding(done, total)
        raise_if_interrupted(request, folder.path, "before the first step")

    report.stage("reading the data")  # this stage also trains tokenizers
    problem = prepare_problem(config, folder.path if folder.resume else None, progress)
    report.stage("building the model")
    raise_if_interrupted(request, folder.path, "before the first step")
    config = with_counted_steps(config, problem.batches, summarise(folder.path).step if folder.resume else 0)
    freeze(problem.task, config)
    if config.training.norm_penalty and not any(isinstance(part, Recurrent) for part in problem.task.modules()):
        raise UserError(
            f"training.norm_penalty needs recurrent layers, and this {config.model.family} model has none; leave it"
            " out, or set model.family=recurrent"
        )
    if not folder.resume:
        check_unfreezing(problem.task, config)
    return config, problem


def describe(config: Config, problem: Problem, folder: Path, device: torch.device, reason: str, report: Report) -> None:
    """Report the device, the data and the size of the model before training."""
    training = config.training
    is_compiled = ", compiled" if training.compile else ""
    report.say(f"device {reason}; {resolve_precision(training.precision, device)} arithmetic{is_compiled}")
    for note in problem.notes:
        report.say(note)
    if training.epochs is not None:
        about = "about " if problem.batches.is_stream else ""
        report.say(f"{training.epochs:g} epochs are {about}{counted(training.steps, 'step')}")
    count = sum(p.numel() for p in problem.task.parameters())
    trained = sum(p.numel() for p in problem.task.parameters() if p.requires_grad)
    of_these = f", of which {trained:,} are trained" if trained < count else ""
    report.say(f"{count:,} parameters{of_these}; {problem.about}; writing to {folder}")


def finish(trainer: Trainer, config: Config) -> Result:
    """Load the weights of the best evaluation, evaluate them on every part, and write the last metrics."""
    folder, state, problem = trainer.folder, trainer.state, trainer.problem
    request, report, autocast = trainer.watchers.request, trainer.watchers.report, trainer.options.autocast
    task: Any = trainer.task
    if trainer.settings.parallel == "fsdp" and is_distributed():
        task = build_task(config, problem.vocabularies).to(trainer.device)
    load_weights(task, folder, config)
    if problem.settle(task, autocast) and rank() == 0:
        with writing("the weights", folder):
            write_weights(folder / WEIGHTS, own_weights(task, task.state_dict()))
    if note := getattr(task, "settled", ""):
        report.say(note)
    scores: dict[str, Score] = {}
    for part in problem.parts:
        score = problem.judge(part, task, task, autocast, lambda: bool(request), final=True, progress=report.evaluating)
        if score is None:
            raise_if_interrupted(request, folder, "after the last step, before the final evaluation")
        assert score is not None
        scores[part] = score
    task.eval()
    progress = state.progress
    flops = trainer.flops_per_token * progress.tokens
    record: dict[str, Any] = {"step": progress.step, "best.step": state.best.step}
    for part, score in scores.items():
        record |= {f"best.{part}.{name}": value for name, value in score.measures.items()}
    if trainer.stopped_by:
        record["stopped_by"] = trainer.stopped_by
    trainer.log({**record, "train.flops": flops, "seconds": progress.seconds})
    last = scores[problem.parts[-1]]
    if rank() == 0 and last.examples:
        with writing("the predictions", folder):
            write_predictions(folder, last.examples, last.predictions, last.statistics)
    run = Run(folder, config, problem.vocabularies, task)
    return Result(run, progress.step, state.best.step, scores["valid"], scores.get("test"), progress.seconds, flops)


def check_training(training: TrainingConfig) -> None:
    """Check the config section `training` before reading data or building the model."""
    check_part("optimiser", training.optimiser, OPTIMISERS)
    check_part("schedule", training.schedule, SCHEDULES)
    build_part("schedule", training.schedule, SCHEDULES, training.steps)
    if training.average is not None:
        build_part("average", training.average, AVERAGES, nn.Module())
    check_loggers(training.log)
    if training.vary_length and training.batching != "streams":
        raise UserError(
            "training.vary_length needs training.batching=streams; set it, or leave training.vary_length out"
        )
    if training.norm_penalty and (training.compile or training.recompute or training.parallel == "fsdp"):
        raise UserError(
            "training.norm_penalty needs a second derivative of each recurrent step, which compiled, recomputed and"
            " sharded layers do not support; set training.compile=false training.recompute=false training.parallel=ddp,"
            " or leave training.norm_penalty out"
        )
    if training.batch_size < training.accumulate * world_size():
        raise UserError(
            f"training.batch_size ({training.batch_size}) must be at least training.accumulate ({training.accumulate}) "
            f"times the number of processes ({world_size()})"
        )


def with_counted_steps(config: Config, batches: Batches, done: int) -> Config:
    """Replace `training.epochs`, if set, by the number of steps."""
    training = config.training
    if training.epochs is None:
        return config
    whole = int(training.epochs)
    part = training.epochs - whole
    steps = sum(map(batches.per_epoch, range(whole))) + (round(part * batches.per_epoch(whole)) if part else 0)
    if steps < done:
        raise UserError(
            f"the run has already done {counted(done, 'step')}, but training.epochs={training.epochs:g} is {steps:,};"
            " set more epochs"
        )
    return config.model_copy(update={"training": training.model_copy(update={"steps": max(steps, 1)})})


def own_device(name: str) -> tuple[torch.device, str]:
    """Return this process's device, and the reason for the choice."""
    device, reason = choose_device(name)
    if not is_distributed():
        return device, reason
    return (
        torch.device(device.type, local_rank()) if device.type == "cuda" else device
    ), f"{reason}; {world_size()} processes"


def raise_if_interrupted(request: Request, folder: Path, when: str) -> None:
    """Raise `Interrupted` if a signal has arrived."""
    if request:
        saved = f"saved in {folder}" if is_run(folder) else "nothing was saved"
        raise Interrupted(request.number or 2, f"stopped {when}; {saved}", folder)
