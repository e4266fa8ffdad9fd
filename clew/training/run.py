"""One run from config to result: prepares, trains, evaluates, saves, and says what it does to a `Report`."""

import hashlib
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from clew.core.config import build_part, check_part
from clew.core.errors import UserError
from clew.data.encoded import TokenFile
from clew.layers.attention import SelfAttention
from clew.metrics.perplexity import Likelihood
from clew.runs.build import build_task, choose_device, encode_texts, find_texts, train_tokenizer
from clew.runs.config import Config, TrainingConfig
from clew.runs.directory import (
    WEIGHTS,
    append_metrics,
    keep_code,
    read_metrics,
    truncate_metrics,
    write_config,
    write_environment,
    write_weights,
)
from clew.runs.loaded import TOKENIZER, Run, load_weights
from clew.tasks.language_model import LanguageModel
from clew.text.tokenizer import Tokenizer
from clew.training.batches import language_batches
from clew.training.checkpoints import Training, find_checkpoint, load_checkpoint, save_checkpoint
from clew.training.evaluation import evaluate
from clew.training.loop import Batches, Record, Standing, train
from clew.training.observers import Best
from clew.training.optimisers import OPTIMISERS
from clew.training.precision import precision
from clew.training.processes import rank, replicate, world_size
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


def check_training(training: TrainingConfig) -> None:
    """The parts of the training section that are chosen by name, before anything is read or built."""
    check_part("optimiser", training.optimiser, OPTIMISERS)
    check_part("schedule", training.schedule, SCHEDULES)
    build_part("schedule", training.schedule, SCHEDULES, training.steps)
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
    """Trains a config in a folder: a new one, or one that is gone on with. Raises `Interrupted` where a signal came, after saving."""
    report = report or Silence()
    check_training(config.training)
    device, reason = choose_device(config.device)
    texts = find_texts(config.data)
    report.say(f"device {reason}")
    tokenizer = Tokenizer.load(folder / TOKENIZER) if resume else train_tokenizer(config.text, texts["train"])
    encoded = encode_texts(texts, tokenizer, cache_folder(), report.encoding)
    batches = language_batches(encoded["train"], config, device)
    batches.per_epoch(0)
    task: Any = build_task(config, tokenizer)
    check_reach(config, task)
    task.to(device)
    report.say(describe_start(task, tokenizer, encoded, folder))
    if not resume and rank() == 0:
        prepare_folder(folder, config, tokenizer, device, code)
    training = Training(
        task,
        build_part("optimiser", config.training.optimiser, OPTIMISERS, task.parameters(), config.training.learning_rate),
        build_part("schedule", config.training.schedule, SCHEDULES, config.training.steps),
        Best(config.training.patience),
        Standing(),
        identity(config, tokenizer, encoded["train"]),
    )
    if resume:
        go_back(folder, training, report)
    with stop_requests() as request, precision(config.training, device) as autocast:
        seconds = run_loop(config, folder, training, batches, encoded["valid"], autocast, request, report)
        load_weights(task, folder)
        valid = evaluate(task, encoded["valid"], config.training, autocast=autocast)
        test = evaluate(task, encoded["test"], config.training, autocast=autocast) if "test" in encoded else None
    assert valid is not None
    task.eval()
    flops = training_flops(task, config, training.standing.step)
    record = {"step": training.standing.step, "best.step": training.best.step, **measures("best.valid", valid), "train.flops": flops}
    append_metrics(folder, {**record, **(measures("best.test", test) if test is not None else {})})
    run = Run(folder, config, tokenizer, task)
    return Result(run, training.standing.step, training.best.step, valid, test, seconds, flops)


def run_loop(
    config: Config,
    folder: Path,
    training: Training,
    batches: Batches,
    valid: TokenFile,
    autocast: Any,
    request: Request,
    report: Report,
) -> float:
    """Steps, evaluations and checkpoints until the end, a request to stop, or no more patience; the seconds it took."""
    settings = config.training
    model = torch.compile(training.task) if settings.compile else training.task
    forward: Any = replicate(model)  # type: ignore[arg-type]
    steps = train(
        forward,
        batches,
        training.optimiser,
        training.schedule,
        steps=settings.steps,
        standing=training.standing,
        seed=config.seed,
        carry=settings.batching == "streams",
        clip_norm=settings.clip_norm,
        clip_value=settings.clip_value,
        autocast=autocast,
        counts=training.task.counts,  # type: ignore[arg-type]
    )
    started, clock, counted = time.perf_counter(), time.perf_counter(), 0

    def evaluate_now() -> None:
        likelihood = evaluate(training.task, valid, settings, forward=model, autocast=autocast, interrupted=lambda: bool(request))  # type: ignore[arg-type]
        if likelihood is not None:
            observe(folder, training, likelihood, report)

    if is_unevaluated(folder, training.standing.step, settings):
        evaluate_now()
    if training.best.is_exhausted:
        report.say(f"no better evaluation in {settings.patience}; stopped at step {training.standing.step}")
        return 0.0
    for record in steps:
        counted += record.count
        now = time.perf_counter()
        if record.step % settings.log_every == 0 or record.step == settings.steps or record.skipped:
            speed = counted / max(now - clock, 1e-9)
            report.step(record, settings.steps, speed)
            log_step(folder, record, speed)
            clock, counted = now, 0
        is_last = record.step == settings.steps
        if record.step % settings.evaluate_every == 0 or is_last:
            evaluate_now()
        saves = settings.save_every or settings.evaluate_every
        if (record.step % saves == 0 or is_last or request) and rank() == 0:
            save_checkpoint(folder, training)
        clock += time.perf_counter() - now  # speed is that of training alone
        if request:
            raise Interrupted(request.number or 2, f"stopped at step {record.step} of {settings.steps}; saved in {folder}", folder)
        if training.best.is_exhausted:
            report.say(f"no better evaluation in {settings.patience}; stopped at step {record.step}")
            if rank() == 0:
                save_checkpoint(folder, training)
            break
    return time.perf_counter() - started


def is_unevaluated(folder: Path, step: int, settings: TrainingConfig) -> bool:
    """Whether a run that goes on from this step was interrupted while it was evaluated there."""
    is_due = step > 0 and (step % settings.evaluate_every == 0 or step == settings.steps)
    return is_due and not any(record.get("step") == step and "valid.loss" in record for record in read_metrics(folder))


def observe(folder: Path, training: Training, likelihood: Likelihood, report: Report) -> None:
    """What reacts to an evaluation; the weights of the best one are the run's."""
    step = training.standing.step
    training.schedule.observe(likelihood.loss)
    is_best = training.best.observe(likelihood.loss, step)
    if rank() == 0:
        append_metrics(folder, {"step": step, **measures("valid", likelihood)})
        if is_best or not (folder / WEIGHTS).exists():
            write_weights(folder / WEIGHTS, training.task.state_dict())
    tokenizer: Any = training.task.tokenizer
    report.evaluated(step, likelihood, tokenizer.unit, is_best)


def prepare_folder(folder: Path, config: Config, tokenizer: Tokenizer, device: torch.device, code: Path | None) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tokenizer.save(folder / TOKENIZER)
        write_environment(folder, device)
        if code is not None:
            keep_code(folder, code)
        write_config(folder, config)
    except OSError as error:
        raise UserError(f"cannot write the run to {folder}: {error.strerror or error}; choose another place with --out") from None


def go_back(folder: Path, training: Training, report: Report) -> None:
    """Puts training where the newest whole checkpoint left it; from the start where there is none."""
    checkpoint, complaints = find_checkpoint(folder)
    for complaint in complaints:
        report.say(complaint)
    if checkpoint is None:
        report.say(f"{folder} has no checkpoint yet; starting from step 0")
        truncate_metrics(folder, -1)
        return
    load_checkpoint(checkpoint, training)
    truncate_metrics(folder, training.standing.step)
    report.say(f"going on from step {training.standing.step}")


def identity(config: Config, tokenizer: Tokenizer, text: TokenFile) -> dict[str, str]:
    """What a resumed run must share with the one that was interrupted."""
    training = config.training
    geometry = {"batch_size": training.batch_size, "length": training.length, "batching": training.batching, "seed": config.seed}
    return {
        "model": digest([config.model.model_dump(mode="json"), config.task.model_dump(mode="json")]),
        "tokenizer": tokenizer.hash,
        "data": Path(str(text.tokens.filename)).stem,
        "batching": digest(geometry),
    }


def digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def measures(name: str, likelihood: Likelihood) -> dict[str, float]:
    return {
        f"{name}.loss": likelihood.loss,
        f"{name}.perplexity": likelihood.perplexity,
        f"{name}.bits_per_character": likelihood.bits_per_character,
    }


def log_step(folder: Path, record: Record, tokens_per_second: float) -> None:
    if rank() != 0:
        return
    losses = {f"train.{name}": value for name, value in record.losses.items()}
    more = {"epoch": record.epoch, "gradient_norm": record.gradient_norm, "learning_rate": record.learning_rate}
    append_metrics(
        folder,
        {
            "step": record.step,
            **losses,
            **more,
            "tokens_per_second": round(tokens_per_second),
            **({"skipped": True} if record.skipped else {}),
        },
    )


def training_flops(task: nn.Module, config: Config, steps: int) -> float:
    """6 * parameters * tokens, the embedding table not counted unless it is the output layer too."""
    parameters = sum(p.numel() for p in task.parameters())
    if isinstance(task, LanguageModel) and task.output_weight is not None:
        parameters -= task.body.embedding.weight.numel()
    return 6.0 * parameters * steps * config.training.batch_size * config.training.length


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
