"""One run from config to result: prepares, trains, evaluates, saves, and says what it does to a `Report`."""

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from clew.core.batches import Batches
from clew.core.config import build_part, check_part
from clew.core.devices import choose_device
from clew.core.errors import UserError, counted
from clew.core.processes import first_alone, from_first, is_distributed, local_rank, rank, world_size
from clew.layers.adapters import own_weights
from clew.layers.recurrent import Recurrent
from clew.metrics.score import Score
from clew.runs.build import build_task
from clew.runs.config import Config, TrainingConfig
from clew.runs.directory import WEIGHTS, is_run, write_weights
from clew.runs.folder.predictions import write_predictions
from clew.runs.folder.summary import summarise
from clew.runs.folder.weights import load_weights
from clew.runs.loaded import Run
from clew.training.averaging import AVERAGES
from clew.training.callbacks import Callback, Callbacks, Ended, Saved
from clew.training.checkpoints import checkpoint_folders, save_checkpoint
from clew.training.freezing import check_unfreezing, freeze
from clew.training.loggers import check_loggers, loggers_of
from clew.training.loop import train
from clew.training.optimisers import OPTIMISERS
from clew.training.precision import precision, resolved
from clew.training.problems import prepare_problem
from clew.training.report import Report, Silence
from clew.training.run_folder import alone, make_folder, prepare_folder, writing
from clew.training.running import Running, evaluate_now, go_back, is_unevaluated, start
from clew.training.schedules import SCHEDULES
from clew.training.signals import Interrupted, Request, stop_requests
from clew.training.step_log import StepLog


@dataclass(frozen=True)
class Result:
    """A finished run: the model of its best evaluation, and what it scored."""

    run: Run
    step: int
    best_step: int
    valid: Score
    test: Score | None
    seconds: float
    flops: float


def check_training(training: TrainingConfig) -> None:
    """The parts of the training section that are chosen by name, before anything is read or built."""
    check_part("optimiser", training.optimiser, OPTIMISERS)
    check_part("schedule", training.schedule, SCHEDULES)
    build_part("schedule", training.schedule, SCHEDULES, training.steps)
    if training.average is not None:
        build_part("average", training.average, AVERAGES, nn.Module())
    check_loggers(training.log)
    if training.vary_length and training.batching != "streams":
        raise UserError("training.vary_length is for streams; set training.batching=streams, or leave it out")
    if training.norm_penalty and (training.compile or training.recompute or training.parallel == "fsdp"):
        raise UserError(
            "training.norm_penalty differentiates each step of a recurrence once more, which compiled, recomputed and"
            " sharded layers do not allow; set training.compile=false training.recompute=false training.parallel=ddp,"
            " or leave it out"
        )
    if training.batch_size < training.accumulate * world_size():
        raise UserError(
            f"training.batch_size ({training.batch_size}) must be at least training.accumulate ({training.accumulate}) "
            f"times the number of processes ({world_size()})"
        )


def train_run(
    config: Config,
    folder: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    code: Path | None = None,
    report: Report | None = None,
    callbacks: Sequence[Callback] = (),
) -> Result:
    """Trains a config in a folder: a new one, or one that is resumed or overwritten. Raises `Interrupted` where a
    signal came, once saved.

    Where several processes train together each calls this, and the first alone writes and reports.
    """
    report = report if report is not None and rank() == 0 else Silence()
    check_training(config.training)
    told = Callbacks(callbacks)
    with stop_requests() as request, stopped_at_once(request, folder):
        return run_through(config, folder, resume, overwrite, code, request, report, told)


@contextmanager
def stopped_at_once(request: Request, folder: Path) -> Iterator[None]:
    """Within this context a second signal ends the run with a sentence that says what is saved."""
    try:
        yield
    except KeyboardInterrupt:
        last = next((f"the last save is {path}" for path in checkpoint_folders(folder)), "nothing was saved")
        raise Interrupted(request.number or signal.SIGINT, f"stopped at once; {last}", folder) from None


def run_through(
    config: Config,
    folder: Path,
    resume: bool,
    overwrite: bool,
    code: Path | None,
    request: Request,
    report: Report,
    callbacks: Callbacks,
) -> Result:
    """One run from its data to its last evaluation."""
    device, reason = own_device(config.device)

    def progress(done: int, total: int) -> None:
        report.encoding(done, total)
        leave_if_asked(request, folder, "before the first step")

    report.stage("reading the data")  # and learning the tokenizer from it
    problem = prepare_problem(config, folder if resume else None, progress)
    report.stage("building the model")
    leave_if_asked(request, folder, "before the first step")
    config = with_counted_steps(config, problem.batches, summarise(folder).step if resume else 0)
    freeze(problem.task, config)
    if config.training.norm_penalty and not any(isinstance(part, Recurrent) for part in problem.task.modules()):
        raise UserError(
            f"training.norm_penalty is for recurrent layers, and a {config.model.family} has none here; leave it out,"
            " or set model.family=recurrent"
        )
    if not resume:
        check_unfreezing(problem.task, config)
    count = sum(p.numel() for p in problem.task.parameters())
    trained = sum(p.numel() for p in problem.task.parameters() if p.requires_grad)
    report.say(
        f"device {reason}; {resolved(config.training.precision, device)}"
        f" arithmetic{', compiled' if config.training.compile else ''}"
    )
    for note in problem.notes:
        report.say(note)
    if config.training.epochs is not None:
        about = "about " if problem.batches.is_stream else ""
        report.say(f"{config.training.epochs:g} epochs are {about}{counted(config.training.steps, 'step')}")
    of_these = f", of which {trained:,} are trained" if trained < count else ""
    report.say(f"{count:,} parameters{of_these}; {problem.about}; writing to {folder}")
    first_alone(lambda: make_folder(folder) if rank() == 0 else None)
    with alone(folder) if rank() == 0 else nullcontext(), precision(config.training, device) as autocast:
        if rank() == 0:
            prepare_folder(folder, config, problem.vocabularies, device, code, resume, overwrite)
        running = start(config, folder, problem, device, autocast, request, report)
        running.callbacks = callbacks
        if resume:
            go_back(running)
        report.stage("compiling" if config.training.compile else "the first step")
        with events(running, resume):
            run_loop(running)
            report.stage("the final evaluation")
            result = finish(running, config)
    leave_if_asked(request, folder, "after the final evaluation")
    callbacks.end(Ended(result.step, result.best_step, dict(result.valid.measures), result.seconds, folder))
    return result


def with_counted_steps(config: Config, batches: Batches, done: int) -> Config:
    """A config that says how many epochs to train, with the steps that these come to; any other as it is."""
    training = config.training
    if training.epochs is None:
        return config
    whole = int(training.epochs)
    part = training.epochs - whole
    steps = sum(map(batches.per_epoch, range(whole))) + (round(part * batches.per_epoch(whole)) if part else 0)
    if steps < done:
        raise UserError(
            f"the run has done {counted(done, 'step')} already, and training.epochs={training.epochs:g} asks for"
            f" {steps:,}; ask for at least as many"
        )
    return config.model_copy(update={"training": training.model_copy(update={"steps": max(steps, 1)})})


@contextmanager
def events(running: Running, resume: bool) -> Iterator[None]:
    """Within this context the first process writes what is measured for other programs too."""
    if rank() == 0:
        with writing("the events", running.folder):
            running.loggers = loggers_of(
                running.settings.log, running.folder, running.training.standing.step if resume else None
            )
    try:
        yield
    finally:
        for logger in running.loggers:
            with suppress(OSError):  # what was to be written is in metrics.jsonl too
                logger.close()


def run_loop(running: Running) -> None:
    """Steps, evaluations and checkpoints until the end, a request to stop, or no more patience."""
    settings, training, folder, report = running.settings, running.training, running.folder, running.report
    callbacks = running.callbacks
    steps = train(
        running.forward,
        running.batches,
        training.optimiser,
        training.schedule,
        steps=settings.steps,
        standing=training.standing,
        seed=running.seed,
        carry=settings.batching == "streams",
        accumulate=settings.accumulate,
        clip_norm=settings.clip_norm,
        clip_value=settings.clip_value,
        norm_penalty=settings.norm_penalty,
        autocast=running.autocast,
        counts=running.counts,
        average=training.average,
        asked_to_stop=lambda: bool(running.request) or running.callbacks.ask_to_stop,
        waiting=running.waiting,
        capture=settings.capture,
    )
    log = StepLog(running)
    began = log.clock - training.standing.seconds
    if is_unevaluated(running):
        evaluate_now(running)
    if training.best.is_exhausted:
        report.say(f"no better evaluation in {settings.patience}; stopped at step {training.standing.step}")
        return
    standing, saves = training.standing, settings.save_every or settings.evaluate_every
    halvings = standing.halvings
    with log.given_up(), closing(steps):  # what makes batches ahead of time ends with the steps, however they end
        for record in steps:
            log.add(record)
            is_last = record.step == settings.steps
            is_due = is_last or any(
                record.step % every == 0 for every in (settings.log_every, settings.evaluate_every, saves)
            )
            if is_due or record.stop or running.request:
                standing.look()
            now = time.perf_counter()
            standing.seconds = now - began
            standing.tokens += record.count
            if standing.halvings != halvings:
                halvings = standing.halvings
                report.say(
                    f"out of memory at step {record.step}: the same batch is cut into {record.parts} micro-batches from"
                    " here on"
                )
            if record.is_read:
                log.write(now)
            callbacks.step(record)
            is_evaluated = record.step % settings.evaluate_every == 0 or is_last
            if is_evaluated:
                evaluate_now(running)
            stop = record.stop or ((bool(running.request) or callbacks.ask_to_stop) and world_size() == 1)
            is_saved = record.step % saves == 0 or is_last or stop or training.best.is_exhausted
            running.stopped_by = asked_by(running) if stop else ""
            if running.stopped_by and not is_evaluated:  # it ends as a run that is complete
                evaluate_now(running)
            if is_saved:
                callbacks.save(Saved(record.step, save_checkpoint(folder, training, settings.keep)))
            log.leave_out(time.perf_counter() - now)
            if stop or world_size() == 1:  # of several processes all end after the same step
                callbacks.raise_error()
            if running.stopped_by:
                report.say(f"{running.stopped_by} asked to stop; stopped at step {record.step}")
                return
            if stop:
                raise Interrupted(
                    running.request.number or 2,
                    f"stopped at step {record.step} of {settings.steps}; saved in {folder}",
                    folder,
                )
            if training.best.is_exhausted:
                report.say(f"no better evaluation in {settings.patience}; stopped at step {record.step}")
                return


def asked_by(running: Running) -> str:
    """The callback that asked to stop, of whichever process; nothing where a signal did, or a callback failed."""
    callbacks, request = running.callbacks, running.request
    return from_first(lambda: "" if request or callbacks.error is not None else callbacks.stopped_by or "")


def finish(running: Running, config: Config) -> Result:
    """The best weights and what they score; a finished run's metrics end with that."""
    folder, training, problem = running.folder, running.training, running.problem
    task: Any = running.task
    if running.settings.parallel == "fsdp" and is_distributed():
        task = build_task(config, problem.vocabularies).to(running.device)
    load_weights(task, folder, config)
    if problem.settle(task, running.autocast) and rank() == 0:
        with writing("the weights", folder):
            write_weights(folder / WEIGHTS, own_weights(task, task.state_dict()))
    if note := getattr(task, "settled", ""):
        running.report.say(note)
    scores: dict[str, Score] = {}
    for part in problem.parts:
        found = problem.judge(
            part,
            task,
            task,
            running.autocast,
            lambda: bool(running.request),
            final=True,
            progress=running.report.evaluating,
        )
        if found is None:
            leave_if_asked(running.request, folder, "after the last step, before the final evaluation")
        assert found is not None
        scores[part] = found
    task.eval()
    standing = training.standing
    flops = running.flops_per_token * standing.tokens
    record: dict[str, Any] = {"step": standing.step, "best.step": training.best.step}
    for part, score in scores.items():
        record |= {f"best.{part}.{name}": value for name, value in score.measures.items()}
    if running.stopped_by:
        record["stopped_by"] = running.stopped_by
    running.note({**record, "train.flops": flops, "seconds": standing.seconds})
    last = scores[problem.parts[-1]]
    if rank() == 0 and last.examples:
        with writing("the predictions", folder):
            write_predictions(folder, last.examples, last.predictions, last.statistics)
    run = Run(folder, config, problem.vocabularies, task)
    return Result(run, standing.step, training.best.step, scores["valid"], scores.get("test"), standing.seconds, flops)


def own_device(name: str) -> tuple[torch.device, str]:
    """This process's device and the reason for it."""
    device, reason = choose_device(name)
    if not is_distributed():
        return device, reason
    return (
        torch.device(device.type, local_rank()) if device.type == "cuda" else device
    ), f"{reason}; {world_size()} processes"


def leave_if_asked(request: Request, folder: Path, when: str) -> None:
    """Ends where a signal has come, once what is under way can be left."""
    if request:
        saved = f"saved in {folder}" if is_run(folder) else "nothing was saved"
        raise Interrupted(request.number or 2, f"stopped {when}; {saved}", folder)
