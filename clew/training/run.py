"""One run from config to result: prepares, trains, evaluates, saves, and says what it does to a `Report`."""

import hashlib
import json
import math
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from clew.core.config import build_part, check_part
from clew.core.errors import UserError
from clew.data.encoded import TokenFile
from clew.data.text_files import TextSource
from clew.layers.attention import SelfAttention
from clew.layers.sequence import Stack
from clew.metrics.perplexity import Likelihood
from clew.runs.build import build_task, choose_device, encode_texts, find_texts, train_tokenizer
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
from clew.runs.loaded import TOKENIZER, Run, load_weights
from clew.runs.lock import locked
from clew.tasks.language_model import LanguageModel
from clew.text.tokenizer import Tokenizer
from clew.training.averaging import AVERAGES
from clew.training.batches import language_batches
from clew.training.checkpoints import Training, cannot_write, checkpoint_folders, find_checkpoint, load_checkpoint, save_checkpoint
from clew.training.evaluation import evaluate
from clew.training.hardware import peak_flops, peak_memory
from clew.training.loader import Loader
from clew.training.loop import Batches, Record, Standing, train
from clew.training.observers import Best
from clew.training.optimisers import OPTIMISERS
from clew.training.parallel import replicate, shard, whole_weights
from clew.training.precision import precision
from clew.training.processes import first_alone, from_first, is_distributed, local_rank, rank, world_size
from clew.training.schedules import SCHEDULES
from clew.training.signals import Interrupted, Request, stop_requests


class Report(Protocol):
    """Whom a run tells what it does; the command line shows it, a notebook may not."""

    def say(self, text: str) -> None: ...

    def encoding(self, done: int, total: int) -> None: ...

    def step(self, record: Record, steps: int, tokens_per_second: float) -> None: ...

    def evaluated(self, step: int, likelihood: Likelihood, unit: str, is_best: bool) -> None: ...


class Silence:
    """A report that says nothing."""

    def say(self, text: str) -> None: ...

    def encoding(self, done: int, total: int) -> None: ...

    def step(self, record: Record, steps: int, tokens_per_second: float) -> None: ...

    def evaluated(self, step: int, likelihood: Likelihood, unit: str, is_best: bool) -> None: ...


@dataclass(frozen=True)
class Result:
    """A finished run: the model of its best evaluation, and what it scored."""

    run: Run
    step: int
    best_step: int
    valid: Likelihood
    test: Likelihood | None
    seconds: float
    flops: float


@dataclass
class Running:
    """A run under way: its settings, its place, and all that takes part."""

    config: Config
    folder: Path
    training: Training
    batches: Batches
    texts: dict[str, TokenFile]
    model: Any
    """The task, or its compiled form: what evaluation runs."""
    forward: nn.Module
    """What the loop runs: the model, spread over the processes where there are several."""
    autocast: Callable[[], AbstractContextManager[Any]]
    request: Request
    report: Report
    flops_per_token: float
    peak: float | None

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
    if training.batch_size < training.accumulate * world_size():
        raise UserError(
            f"training.batch_size ({training.batch_size}) must be at least training.accumulate ({training.accumulate}) "
            f"times the number of processes ({world_size()})"
        )


def check_reach(config: Config, task: Any) -> None:
    """What training asks of the body's positions and state, before a folder is made."""
    training, limit = config.training, task.body.max_length
    if limit is not None and training.length > limit:
        raise UserError(
            f"training.length ({training.length}) must be at most the {limit} positions that the model can tell apart; "
            "lower it, or raise model.max_length"
        )
    if training.batching == "streams" and any(isinstance(part, SelfAttention) for part in task.modules()):
        raise UserError(
            "training.batching=streams carries the state from step to step, and attention's would grow all through an epoch; "
            "set training.batching=windows"
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
    """One run from its texts to its last evaluation."""
    device, reason = choose_device(config.device)
    if is_distributed():
        device = torch.device(device.type, local_rank()) if device.type == "cuda" else device
        reason += f"; {world_size()} processes"
    sources = find_texts(config.data)
    report.say(f"device {reason}")
    tokenizer, texts = read_texts(config, sources, folder, resume, request, report)
    batches = language_batches(texts["train"], config)
    batches.per_epoch(0)
    task: Any = build_task(config, tokenizer)
    check_reach(config, task)
    report.say(describe_start(task, tokenizer, texts, folder))
    leave_if_asked(request, folder, "before the first step")
    first_alone(lambda: make_folder(folder) if rank() == 0 else None)
    with alone(folder) if rank() == 0 else nullcontext(), precision(config.training, device) as autocast:
        if rank() == 0:
            prepare_folder(folder, config, tokenizer, device, code, resume)
        running = start(config, folder, task.to(device), tokenizer, texts, batches, autocast, request, report)
        if resume:
            go_back(running)
        seconds = run_loop(running)
        result = finish(running, tokenizer, seconds)
    leave_if_asked(request, folder, "after the final evaluation")
    return result


def read_texts(
    config: Config, sources: dict[str, TextSource], folder: Path, resume: bool, request: Request, report: Report
) -> tuple[Tokenizer, dict[str, TokenFile]]:
    """The tokenizer, trained by the first process or the run's own, and every part of the text as ids."""

    def progress(done: int, total: int) -> None:
        report.encoding(done, total)
        leave_if_asked(request, folder, "before the first step")

    def tokenizer_json() -> str:
        tokenizer = Tokenizer.load(folder / TOKENIZER) if resume else train_tokenizer(config.text, sources["train"])
        return tokenizer.to_json()

    tokenizer = Tokenizer.from_json(from_first(tokenizer_json))
    leave_if_asked(request, folder, "before the first step")
    return tokenizer, first_alone(lambda: encode_texts(sources, tokenizer, cache_folder(), progress))


def start(
    config: Config,
    folder: Path,
    task: Any,
    tokenizer: Tokenizer,
    texts: dict[str, TokenFile],
    batches: Batches,
    autocast: Any,
    request: Request,
    report: Report,
) -> Running:
    """Everything that takes part, at step 0."""
    settings = config.training
    device = next(task.parameters()).device
    flops = 6.0 * counted_parameters(task)
    is_sharded = settings.parallel == "fsdp" and is_distributed()
    if settings.recompute:
        for part in task.modules():
            if isinstance(part, Stack):
                part.recompute = True  # type: ignore[assignment]
    known = identity(config, task, tokenizer, texts["train"])
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
    model: Any = torch.compile(task) if settings.compile else task
    forward = model if is_sharded else replicate(model)
    loader = Loader(batches, settings.workers, pin=device.type == "cuda")
    peak = peak_flops(device, settings.precision)
    return Running(config, folder, training, loader, texts, model, forward, autocast, request, report, flops, peak)


def run_loop(running: Running) -> float:
    """Steps, evaluations and checkpoints until the end, a request to stop, or no more patience; the seconds it took since step 0."""
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
    )
    clock, counted = time.perf_counter(), 0
    began = clock - training.standing.seconds
    if is_unevaluated(running):
        evaluate_now(running)
    if training.best.is_exhausted:
        report.say(f"no better evaluation in {settings.patience}; stopped at step {training.standing.step}")
        return training.standing.seconds
    halvings = training.standing.halvings
    for record in steps:
        counted += record.count
        now = time.perf_counter()
        training.standing.seconds = now - began
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
            break
    return training.standing.seconds


def finish(running: Running, tokenizer: Tokenizer, seconds: float) -> Result:
    """The best weights and what they score; a finished run's metrics end with that."""
    config, folder, training = running.config, running.folder, running.training
    task: Any = running.task
    if running.settings.parallel == "fsdp" and is_distributed():
        device = running.device
        task = build_task(config, tokenizer).to(device)
    load_weights(task, folder)
    scores: dict[str, Likelihood] = {}
    for part in ("valid", "test"):
        if part in running.texts:
            found = evaluate(
                task, running.texts[part], running.settings, autocast=running.autocast, interrupted=lambda: bool(running.request)
            )
            if found is None:
                leave_if_asked(running.request, folder, "after the last step, before the final evaluation")
            assert found is not None
            scores[part] = found
    task.eval()
    step, flops = training.standing.step, training_flops(task, config, training.standing.step)
    record = {"step": step, "best.step": training.best.step, **measures("best.valid", scores["valid"]), "train.flops": flops}
    record_metrics(folder, {**record, **(measures("best.test", scores["test"]) if "test" in scores else {}), "seconds": seconds})
    run = Run(folder, config, tokenizer, task)
    return Result(run, step, training.best.step, scores["valid"], scores.get("test"), seconds, flops)


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
        likelihood = evaluate(
            running.task,
            running.texts["valid"],
            running.settings,
            forward=running.model,
            autocast=running.autocast,
            interrupted=lambda: bool(running.request),
        )
        if likelihood is None:
            return
        step = training.standing.step
        training.schedule.observe(likelihood.loss)
        is_best = training.best.observe(likelihood.loss, step)
        if is_best or training.best.step == 0:
            keep_weights(running)
    if average is not None:
        average.observe(likelihood.loss)
    record_metrics(running.folder, {"step": step, **measures("valid", likelihood)})
    running.report.evaluated(step, likelihood, running.task.tokenizer.unit, is_best)


def keep_weights(running: Running) -> None:
    """The task's weights as the run's; every process has to ask."""
    weights = whole_weights(running.task)
    if rank() == 0:
        with writing("the weights", running.folder):
            write_weights(running.folder / WEIGHTS, weights)


def record_metrics(folder: Path, record: dict[str, Any]) -> None:
    if rank() == 0:
        with writing("the metrics", folder):
            append_metrics(folder, record)


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


def prepare_folder(folder: Path, config: Config, tokenizer: Tokenizer, device: torch.device, code: Path | None, resume: bool) -> None:
    """The files of a new run, its config last; of one that is gone on with, the config alone, whose steps may have changed."""
    if not resume and is_run(folder):
        raise UserError(f"{folder} has become a run meanwhile; choose another folder with --out")
    with writing("the run", folder):
        remove_leftovers(folder)
        try:
            if not resume:
                tokenizer.save(folder / TOKENIZER)
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


def identity(config: Config, task: nn.Module, tokenizer: Tokenizer, text: TokenFile) -> dict[str, str]:
    """What a resumed run must share with the one that was interrupted, in words that tell one from another."""
    training = config.training
    parts = [config.model.model_dump(mode="json"), config.task.model_dump(mode="json")]
    parameters = sum(p.numel() for p in task.parameters())
    return {
        "model": f"{config.model.family} of {parameters:,} parameters, {digest(parts)}",  # type: ignore[attr-defined]
        "tokenizer": f"{tokenizer.vocabulary:,} {tokenizer.unit}s, {tokenizer.hash[:8]}",
        "training text": f"{len(text):,} tokens, {Path(str(text.tokens.filename)).stem[:8]}",
        "order of batches": f"{training.batching} of {training.batch_size} x {training.length}, seed {config.seed}",
    }


def digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]


def measures(name: str, likelihood: Likelihood) -> dict[str, float]:
    return {
        f"{name}.loss": likelihood.loss,
        f"{name}.perplexity": likelihood.perplexity,
        f"{name}.bits_per_character": likelihood.bits_per_character,
    }


def log_step(running: Running, record: Record, tokens_per_second: float) -> None:
    measured: dict[str, Any] = {f"train.{name}": value for name, value in record.losses.items()}
    measured |= {"epoch": record.epoch, "gradient_norm": record.gradient_norm, "learning_rate": record.learning_rate}
    measured["tokens_per_second"] = round(tokens_per_second)
    if running.peak is not None:
        measured["flop_utilisation"] = round(tokens_per_second * running.flops_per_token / (running.peak * world_size()), 4)
    if (memory := peak_memory(running.device)) is not None:
        measured["peak_memory"] = memory
    if record.skipped:
        measured["skipped"] = True
    record_metrics(running.folder, {"step": record.step, **measured})


def counted_parameters(task: nn.Module) -> int:
    """Those that a token is multiplied with: the embedding table is not, unless it is the output layer too."""
    parameters = sum(p.numel() for p in task.parameters())
    if isinstance(task, LanguageModel) and task.output_weight is not None:
        parameters -= task.body.embedding.weight.numel()
    return parameters


def training_flops(task: nn.Module, config: Config, steps: int) -> float:
    """6 * parameters * tokens."""
    return 6.0 * counted_parameters(task) * steps * config.training.batch_size * config.training.length


def describe_start(task: nn.Module, tokenizer: Tokenizer, encoded: dict[str, TokenFile], folder: Path) -> str:
    count = sum(p.numel() for p in task.parameters())
    sizes = ", ".join(f"{len(text):,} {name}" for name, text in encoded.items())
    unknown = sum(text.num_unknown for name, text in encoded.items() if name != "train")
    note = f"; {unknown:,} unknown outside the training part" if unknown else ""
    return f"{count:,} parameters; {tokenizer.vocabulary:,} {tokenizer.unit}s; {sizes} tokens{note}; writing to {folder}"


def cache_folder() -> Path:
    """Where encoded texts are kept: CLEW_CACHE, or the user's own cache folder."""
    if "CLEW_CACHE" in os.environ:
        return Path(os.environ["CLEW_CACHE"])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "clew"
