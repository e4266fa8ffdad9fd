"""One run from config to result: prepares, trains, evaluates, saves, and says what it does to a `Report`."""

import hashlib
import json
import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from clew.core.config import build_part, check_part
from clew.core.errors import UserError
from clew.layers.adapters import own_weights
from clew.layers.sequence import Stack
from clew.runs.build import build_task, choose_device
from clew.runs.config import Config, TrainingConfig
from clew.runs.directory import (
    WEIGHTS,
    append_metrics,
    is_run,
    keep_code,
    read_weights,
    remove_leftovers,
    truncate_metrics,
    write_config,
    write_environment,
    write_weights,
)
from clew.runs.loaded import Run, load_weights
from clew.runs.lock import locked
from clew.runs.predictions import write_predictions
from clew.runs.vocabularies import save_vocabularies
from clew.tasks import TASKS
from clew.training.averaging import AVERAGES
from clew.training.checkpoints import Training, cannot_write, checkpoint_folders, find_checkpoint, load_checkpoint, save_checkpoint
from clew.training.events import Events
from clew.training.examples import example_problem
from clew.training.freezing import check_unfreezing, freeze, scale_rates, unfreezing
from clew.training.hardware import peak_flops, peak_memory
from clew.training.language import language_problem
from clew.training.loader import Loader
from clew.training.loop import Batches, Record, Standing, train
from clew.training.masked import masked_problem
from clew.training.observers import Best
from clew.training.optimisers import OPTIMISERS
from clew.training.parallel import replicate, shard, whole_weights
from clew.training.precision import precision
from clew.training.problem import Autocast, Problem, Score
from clew.training.processes import first_alone, is_distributed, local_rank, rank, world_size
from clew.training.schedules import SCHEDULES
from clew.training.signals import Interrupted, Request, stop_requests

PROBLEMS: dict[str, Callable[[Config, Path | None, Callable[[int, int], None]], Problem]] = {
    "text": language_problem,
    "documents": masked_problem,
    "pairs": example_problem,
    "trees": example_problem,
    "labelled_trees": example_problem,
    "tagged": example_problem,
    "labelled": example_problem,
    "questions": example_problem,
    "nothing": example_problem,
}
"""How a run's data are read, by the kind of data that its task learns from."""
EVENTS = "events"
"""The folder of a run's TensorBoard files."""


class Report(Protocol):
    """Whom a run tells what it does; the command line shows it, a notebook may not."""

    def say(self, text: str) -> None: ...

    def encoding(self, done: int, total: int) -> None: ...

    def step(self, record: Record, steps: int, tokens_per_second: float) -> None: ...

    def evaluated(self, step: int, score: Score, is_best: bool) -> None: ...


class Silence:
    """A report that says nothing."""

    def say(self, text: str) -> None: ...

    def encoding(self, done: int, total: int) -> None: ...

    def step(self, record: Record, steps: int, tokens_per_second: float) -> None: ...

    def evaluated(self, step: int, score: Score, is_best: bool) -> None: ...


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


@dataclass
class Running:
    """A run under way: its settings, its place, and all that takes part."""

    config: Config
    folder: Path
    problem: Problem
    training: Training
    batches: Batches
    model: Any
    """The task, or its compiled form: what evaluation runs."""
    forward: nn.Module
    """What the loop runs: the model, spread over the processes where there are several."""
    autocast: Autocast
    request: Request
    report: Report
    flops_per_token: float
    peak: float | None
    events: Events | None = None

    def note(self, record: dict[str, Any]) -> None:
        """One more record of what was measured, written by the first process."""
        if rank() == 0:
            with writing("the metrics", self.folder):
                append_metrics(self.folder, record)
        if self.events is not None:
            with writing("the events", self.folder):
                self.events.add(record)

    @property
    def settings(self) -> TrainingConfig:
        return self.config.training

    @property
    def task(self) -> Any:
        return self.training.task

    @property
    def device(self) -> torch.device:
        return next(self.training.task.parameters()).device


def check_training(training: TrainingConfig) -> None:
    """The parts of the training section that are chosen by name, before anything is read or built."""
    check_part("optimiser", training.optimiser, OPTIMISERS)
    check_part("schedule", training.schedule, SCHEDULES)
    build_part("schedule", training.schedule, SCHEDULES, training.steps)
    if training.average is not None:
        build_part("average", training.average, AVERAGES, nn.Module())
    if training.vary_length and training.batching != "streams":
        raise UserError("training.vary_length is for streams; set training.batching=streams, or leave it out")
    if training.batch_size < training.accumulate * world_size():
        raise UserError(
            f"training.batch_size ({training.batch_size}) must be at least training.accumulate ({training.accumulate}) "
            f"times the number of processes ({world_size()})"
        )


def train_run(config: Config, folder: Path, *, resume: bool = False, code: Path | None = None, report: Report | None = None) -> Result:
    """Trains a config in a folder: a new one, or one that is gone on with. Raises `Interrupted` where a signal came, after saving.

    Where several processes train together each calls this, and the first alone writes and reports.
    """
    report = report if report is not None and rank() == 0 else Silence()
    check_training(config.training)
    with stop_requests() as request:
        try:
            return run_through(config, folder, resume, code, request, report)
        except KeyboardInterrupt:
            last = next((f"the last save is {path}" for path in checkpoint_folders(folder)), "nothing was saved")
            raise Interrupted(request.number or signal.SIGINT, f"stopped at once; {last}", folder) from None


def run_through(config: Config, folder: Path, resume: bool, code: Path | None, request: Request, report: Report) -> Result:
    """One run from its data to its last evaluation."""
    device, reason = choose_device(config.device)
    if is_distributed():
        device = torch.device(device.type, local_rank()) if device.type == "cuda" else device
        reason += f"; {world_size()} processes"

    def progress(done: int, total: int) -> None:
        report.encoding(done, total)
        leave_if_asked(request, folder, "before the first step")

    problem = prepare_problem(config, folder if resume else None, progress)
    leave_if_asked(request, folder, "before the first step")
    freeze(problem.task, config)
    if not resume:
        check_unfreezing(problem.task, config)
    count = sum(p.numel() for p in problem.task.parameters())
    trained = sum(p.numel() for p in problem.task.parameters() if p.requires_grad)
    report.say(f"device {reason}")
    for note in problem.notes:
        report.say(note)
    of_these = f", of which {trained:,} are trained" if trained < count else ""
    report.say(f"{count:,} parameters{of_these}; {problem.about}; writing to {folder}")
    first_alone(lambda: make_folder(folder) if rank() == 0 else None)
    with alone(folder) if rank() == 0 else nullcontext(), precision(config.training, device) as autocast:
        if rank() == 0:
            prepare_folder(folder, config, problem.vocabularies, device, code, resume)
        running = start(config, folder, problem, device, autocast, request, report)
        if resume:
            go_back(running)
        if rank() == 0:
            with writing("the events", folder):
                running.events = Events(folder / EVENTS, after=running.training.standing.step if resume else None)
        try:
            run_loop(running)
            result = finish(running)
        finally:
            if running.events is not None:
                with suppress(OSError):  # what was to be written is in metrics.jsonl too
                    running.events.close()
    leave_if_asked(request, folder, "after the final evaluation")
    return result


def prepare_problem(config: Config, run: Path | None = None, progress: Callable[[int, int], None] = lambda done, total: None) -> Problem:
    """What a config trains on, with the vocabularies of a run that is there already, or new ones."""
    return PROBLEMS[TASKS[config.task.name].data](config, run, progress)  # type: ignore[attr-defined]


def start(
    config: Config, folder: Path, problem: Problem, device: torch.device, autocast: Autocast, request: Request, report: Report
) -> Running:
    """Everything that takes part, at step 0."""
    settings = config.training
    task = problem.task.to(device)
    flops = 6.0 * counted_parameters(task)
    is_sharded = settings.parallel == "fsdp" and is_distributed()
    for part in task.modules():
        if isinstance(part, Stack):
            part.recompute = settings.recompute
    known = {**identity(config, task, problem.vocabularies), **problem.identity}
    if is_sharded:
        shard(task)
    training = Training(
        task,
        build_part("optimiser", settings.optimiser, OPTIMISERS, task.parameters(), settings.learning_rate),
        build_part("schedule", settings.schedule, SCHEDULES, settings.steps),
        Best(settings.patience),
        Standing(),
        known,
        build_part("average", settings.average, AVERAGES, task) if settings.average is not None else None,
    )
    scale_rates(training.optimiser, task, config)
    model: Any = torch.compile(task) if settings.compile else task
    forward = model if is_sharded else replicate(model)
    loader = Loader(problem.batches, settings.workers, pin=device.type == "cuda")
    peak = peak_flops(device, settings.precision)
    return Running(config, folder, problem, training, loader, model, forward, autocast, request, report, flops, peak)


def run_loop(running: Running) -> None:
    """Steps, evaluations and checkpoints until the end, a request to stop, or no more patience."""
    settings, training, folder, report = running.settings, running.training, running.folder, running.report
    steps = train(
        running.forward,
        running.batches,
        training.optimiser,
        training.schedule,
        steps=settings.steps,
        standing=training.standing,
        seed=running.config.seed,
        carry=settings.batching == "streams",
        accumulate=settings.accumulate,
        clip_norm=settings.clip_norm,
        clip_value=settings.clip_value,
        autocast=running.autocast,
        counts=running.task.counts,
        average=training.average,
        asked_to_stop=lambda: bool(running.request),
        waiting=unfreezing(running.task, running.config) or (lambda step: ()),
    )
    clock, counted = time.perf_counter(), 0
    began = clock - training.standing.seconds
    if is_unevaluated(running):
        evaluate_now(running)
    if training.best.is_exhausted:
        report.say(f"no better evaluation in {settings.patience}; stopped at step {training.standing.step}")
        return
    halvings = training.standing.halvings
    for record in steps:
        counted += record.count
        now = time.perf_counter()
        training.standing.seconds = now - began
        training.standing.tokens += record.count
        if training.standing.halvings != halvings:
            halvings = training.standing.halvings
            report.say(f"out of memory at step {record.step}: the same batch is cut into {record.parts} micro-batches from here on")
        is_last = record.step == settings.steps
        if record.step % settings.log_every == 0 or is_last or record.skipped:
            speed = counted / max(now - clock, 1e-9)
            report.step(record, settings.steps, speed)
            log_step(running, record, speed)
            clock, counted = now, 0
        if record.step % settings.evaluate_every == 0 or is_last:
            evaluate_now(running)
        stop = record.stop or (bool(running.request) and world_size() == 1)
        saves = settings.save_every or settings.evaluate_every
        if record.step % saves == 0 or is_last or stop or training.best.is_exhausted:
            save_checkpoint(folder, training, settings.keep)
        clock += time.perf_counter() - now  # speed is that of training alone
        if stop:
            raise Interrupted(running.request.number or 2, f"stopped at step {record.step} of {settings.steps}; saved in {folder}", folder)
        if training.best.is_exhausted:
            report.say(f"no better evaluation in {settings.patience}; stopped at step {record.step}")
            return


def finish(running: Running) -> Result:
    """The best weights and what they score; a finished run's metrics end with that."""
    config, folder, training, problem = running.config, running.folder, running.training, running.problem
    task: Any = running.task
    if running.settings.parallel == "fsdp" and is_distributed():
        task = build_task(config, problem.vocabularies).to(running.device)
    load_weights(task, folder, config)
    if problem.settle(task, running.autocast) and rank() == 0:
        with writing("the weights", folder):
            write_weights(folder / WEIGHTS, own_weights(task, task.state_dict()))
    scores: dict[str, Score] = {}
    for part in problem.parts:
        found = problem.judge(part, task, task, running.autocast, lambda: bool(running.request), final=True)
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
    running.note({**record, "train.flops": flops, "seconds": standing.seconds})
    last = scores[problem.parts[-1]]
    if rank() == 0 and last.examples:
        with writing("the predictions", folder):
            write_predictions(folder, last.examples, last.predictions)
    run = Run(folder, config, problem.vocabularies, task)
    return Result(run, standing.step, training.best.step, scores["valid"], scores.get("test"), standing.seconds, flops)


def leave_if_asked(request: Request, folder: Path, when: str) -> None:
    """Ends where a signal has come, once what is under way can be left."""
    if request:
        saved = f"saved in {folder}" if is_run(folder) else "nothing was saved"
        raise Interrupted(request.number or 2, f"stopped {when}; {saved}", folder)


def is_unevaluated(running: Running) -> bool:
    """Whether a run that goes on from this step was interrupted while it was evaluated there."""
    step, evaluated, settings = running.training.standing.step, running.training.best.evaluated, running.settings
    is_due = step > 0 and (step % settings.evaluate_every == 0 or step == settings.steps)
    return is_due and evaluated is not None and evaluated < step


def evaluate_now(running: Running) -> None:
    """An evaluation and what reacts to it; the weights of the best one are the run's. With averaging, those are the averaged ones."""
    training, average = running.training, running.training.average
    with average.in_place() if average is not None else nullcontext():
        score = running.problem.judge("valid", running.task, running.model, running.autocast, lambda: bool(running.request))
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


def keep_weights(running: Running) -> None:
    """The task's weights as the run's; every process has to ask."""
    weights = whole_weights(running.task)
    if rank() == 0:
        with writing("the weights", running.folder):
            write_weights(running.folder / WEIGHTS, weights)


@contextmanager
def writing(what: str, folder: Path) -> Iterator[None]:
    """Within this context a disk that is full or may not be written to ends the run with a sentence."""
    try:
        yield
    except OSError as error:
        if is_run(folder):
            raise cannot_write(what, folder, error) from None
        raise UserError(f"cannot write the run to {folder}: {error.strerror or error}; choose another place with --out") from None


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Within this context no other process writes the run."""
    with ExitStack() as stack:
        with writing("the run", folder):
            stack.enter_context(locked(folder))
        yield


def make_folder(folder: Path) -> None:
    with writing("the run", folder):
        folder.mkdir(parents=True, exist_ok=True)


def prepare_folder(
    folder: Path, config: Config, vocabularies: dict[str, Any], device: torch.device, code: Path | None, resume: bool
) -> None:
    """The files of a new run, its config last; of one that is gone on with, the config alone, whose steps may have changed."""
    if not resume and is_run(folder):
        raise UserError(f"{folder} has become a run meanwhile; choose another folder with --out")
    with writing("the run", folder):
        remove_leftovers(folder)
        try:
            if not resume:
                save_vocabularies(folder, vocabularies)
                write_environment(folder, device)
                if code is not None:
                    keep_code(folder, code)
            write_config(folder, config)
        except OSError:
            with suppress(OSError):
                remove_leftovers(folder)
            raise


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
        report.say(f"{fault}; the weights of step {standing.step} take the place of those of step {best.step}, the best so far")
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


def identity(config: Config, task: nn.Module, vocabularies: dict[str, Any]) -> dict[str, str]:
    """What a resumed run must share with the one that was interrupted, besides its data."""
    parts = [config.model.model_dump(mode="json"), config.task.model_dump(mode="json")]
    parameters = sum(p.numel() for p in task.parameters())
    words = {role: f"{vocabulary.vocabulary:,} {vocabulary.unit}s, {vocabulary.hash[:8]}" for role, vocabulary in vocabularies.items()}
    return {"model": f"{config.model.family} of {parameters:,} parameters, {digest(parts)}", **words}  # type: ignore[attr-defined]


def digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]


def log_step(running: Running, record: Record, tokens_per_second: float) -> None:
    measured: dict[str, Any] = {f"train.{name}": value for name, value in record.losses.items()}
    if len(record.counts) > 1:
        measured |= {f"train.{name}_count": count for name, count in record.counts.items()}
    measured |= {"epoch": record.epoch, "gradient_norm": record.gradient_norm, "learning_rate": record.learning_rate}
    measured["tokens_per_second"] = round(tokens_per_second)
    if running.peak is not None:
        measured["flop_utilisation"] = round(tokens_per_second * running.flops_per_token / (running.peak * world_size()), 4)
    if (memory := peak_memory(running.device)) is not None:
        measured["peak_memory"] = memory
    if record.skipped:
        measured["skipped"] = True
    running.note({"step": record.step, **measured})


def counted_parameters(task: nn.Module) -> int:
    """Those that a token is multiplied with: tables that it is only looked up in are not."""
    parameters = sum(p.numel() for p in task.parameters())
    unused: list[Tensor] = getattr(task, "looked_up", list)()
    return parameters - sum(table.numel() for table in unused)
