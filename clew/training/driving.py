"""Drive the training loop of a run: log, evaluate and save between steps, and stop. `training.loop` does the steps."""

import math
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from pathlib import Path

from clew.core.errors import UserError, counted
from clew.core.processes import first_alone, rank, world_size
from clew.core.wording import argument
from clew.runs.directory import read_weights, truncate_metrics, write_weights
from clew.runs.folder.run_files import WEIGHTS, read_metrics
from clew.training.callbacks import Evaluated, Saved
from clew.training.checkpoints import find_checkpoint, load_checkpoint, save_checkpoint
from clew.training.loggers import build_loggers
from clew.training.loop import train
from clew.training.parallel import whole_weights
from clew.training.records import Progress, Record
from clew.training.run_folder import writing
from clew.training.signals import Interrupted
from clew.training.step_log import StepLog
from clew.training.trainer import Trainer


def drive(trainer: Trainer) -> None:
    """Train until the last step, a request to stop, or early stopping."""
    settings, state, watchers = trainer.settings, trainer.state, trainer.watchers
    callbacks, report = watchers.callbacks, watchers.report
    progress = state.progress
    steps = train(
        trainer.forward,
        trainer.batches,
        state.optimiser,
        state.schedule,
        trainer.options,
        steps=settings.steps,
        progress=progress,
        average=state.average,
    )
    log = StepLog(trainer)
    began = log.clock - progress.seconds
    if lacks_evaluation(trainer):
        evaluate(trainer)
    if state.best.is_exhausted:
        return report.say(early_stopping_note(trainer))
    saves = settings.save_every or settings.evaluate_every
    halvings = progress.halvings
    with log.failing(), closing(steps):  # closing also ends the worker processes that prefetch batches
        for record in steps:
            log.add(record)
            is_last = record.step == settings.steps
            if is_last or record.stop or watchers.request or is_due(record.step, trainer, saves):
                progress.look()
            if is_last:
                check_steps(record, progress)
            now = time.perf_counter()
            progress.seconds = now - began
            progress.tokens += record.count
            if progress.halvings != halvings:
                halvings = progress.halvings
                report.say(
                    f"out of memory at step {record.step}: from this step on, batches are split into {record.parts}"
                    " micro-batches"
                )
            if record.is_read:
                log.write(now)
            callbacks.step(record)
            if is_last and rank() == 0:
                say_skipped(trainer)
            is_evaluated = record.step % settings.evaluate_every == 0 or is_last
            if is_evaluated:
                with saving_before_errors(trainer):
                    evaluate(trainer)
            # Several processes agree to stop when they next exchange counts, so that all stop after the same step.
            stop = record.stop or (watchers.ask_to_stop() and world_size() == 1)
            trainer.stopped_by = watchers.stopping_callback() if stop else ""
            if trainer.stopped_by and not is_evaluated:  # the run ends like a complete one
                evaluate(trainer)
            if record.step % saves == 0 or is_last or stop or state.best.is_exhausted:
                callbacks.save(Saved(record.step, save_checkpoint(trainer.folder, state, settings.keep)))
            log.exclude(time.perf_counter() - now)
            if stop or world_size() == 1:
                callbacks.raise_error()
            if trainer.stopped_by:
                return report.say(f"stopped at step {record.step}, as requested by {trainer.stopped_by}")
            if stop:
                where = f"stopped at step {record.step} of {settings.steps}; saved in {trainer.folder}"
                raise Interrupted(watchers.request.number or 2, where, trainer.folder)
            if state.best.is_exhausted:
                return report.say(early_stopping_note(trainer))


def check_steps(last: Record, progress: Progress) -> None:
    """Raise if every step of the run was skipped. More than `MOST_SKIPPED` in a row have raised before."""
    if progress.skipped >= last.step:
        raise UserError(
            f"no step had a finite gradient (loss {last.loss}, gradient norm {last.gradient_norm}), so the weights have"
            f" not changed in {counted(last.step, 'step')}; look for nan or inf in the data and in the loss, or lower"
            " training.learning_rate"
        )


def say_skipped(trainer: Trainer) -> None:
    """Say how many steps were skipped, if any. Each has a record in the metrics, also from before a resumption."""
    skipped = sum("skipped" in record for record in read_metrics(trainer.folder))
    if skipped:
        steps = counted(trainer.settings.steps, "step")
        trainer.watchers.report.say(
            f"{skipped:,} of {steps} changed nothing, because the loss or the gradient was not finite"
        )


@contextmanager
def saving_before_errors(trainer: Trainer) -> Iterator[None]:
    """Save a checkpoint if an evaluation raises, as it may do in the user's code; resuming starts with the evaluation.
    With several processes only some may have failed, so none saves."""
    try:
        yield
    except Exception:
        if world_size() == 1:
            save_checkpoint(trainer.folder, trainer.state, trainer.settings.keep)
            step, resume = trainer.state.progress.step, argument("resume", True)
            trainer.watchers.report.say(
                f"the evaluation failed at step {step}; saved in {trainer.folder}, to resume with {resume}"
            )
        raise


def is_due(step: int, trainer: Trainer, saves: int) -> bool:
    """Whether a step is logged, evaluated or saved: then the host must read its numbers first."""
    return any(step % every == 0 for every in (trainer.settings.log_every, trainer.settings.evaluate_every, saves))


def early_stopping_note(trainer: Trainer) -> str:
    return (
        f"no improvement in {counted(trainer.settings.patience or 0, 'evaluation')}; stopped at step"
        f" {trainer.state.progress.step}"
    )


def lacks_evaluation(trainer: Trainer) -> bool:
    """Whether the run was interrupted before the evaluation that was due at its last step was complete."""
    step, evaluated, settings = trainer.state.progress.step, trainer.state.best.evaluated, trainer.settings
    is_due = step > 0 and (step % settings.evaluate_every == 0 or step == settings.steps)
    return is_due and evaluated is not None and evaluated < step


def evaluate(trainer: Trainer) -> None:
    """Evaluate on the validation part, with averaged weights if there are any. If this is the best evaluation so far,
    write its weights as the run's."""
    state, watchers = trainer.state, trainer.watchers
    with state.average.in_place() if state.average is not None else nullcontext():
        score = trainer.problem.judge(
            "valid",
            trainer.task,
            trainer.model,
            trainer.options.autocast,
            lambda: bool(watchers.request),
            progress=watchers.report.evaluating,
        )
        if score is None:
            return
        step = state.progress.step
        state.schedule.observe(score.value)
        is_best = state.best.observe(score.value, step)
        if is_best or state.best.step == 0:
            keep_weights(trainer)
    if state.average is not None:
        state.average.observe(score.value)
    trainer.log({"step": step, **{f"valid.{name}": value for name, value in score.measures.items()}})
    watchers.report.evaluated(step, score, is_best)
    watchers.callbacks.evaluation(Evaluated(step, dict(score.measures), is_best))


def keep_weights(trainer: Trainer) -> None:
    """Write the task's weights as the run's. Every process must call this."""
    weights = whole_weights(trainer.task)
    if rank() == 0:
        with writing("the weights", trainer.folder):
            write_weights(trainer.folder / WEIGHTS, weights)


def restore_checkpoint(trainer: Trainer) -> None:
    """Restore the newest intact checkpoint; without one, training starts at step 0."""
    folder, state, report = trainer.folder, trainer.state, trainer.watchers.report
    checkpoint, complaints = find_checkpoint(folder)
    for complaint in complaints:
        report.say(complaint)
    if checkpoint is not None:
        load_checkpoint(checkpoint, state)
    progress, best = state.progress, state.best

    def truncate() -> None:
        if rank() == 0:
            with writing("the metrics", folder):
                truncate_metrics(folder, progress.step if checkpoint is not None else -1, best.evaluated)

    first_alone(truncate)
    if checkpoint is None:
        return report.say(f"{folder} has no checkpoint yet; starting from step 0")
    report.say(f"resuming from step {progress.step}")
    if best.step > 0 and (fault := weights_fault(folder)):
        report.say(f"{fault}; the weights of step {progress.step} replace the best weights so far, of step {best.step}")
        if best.step != progress.step:
            best.step, best.value = progress.step, math.inf
        with state.average.in_place() if state.average is not None else nullcontext():
            keep_weights(trainer)


def weights_fault(folder: Path) -> str | None:
    """Return why the run's weights cannot be read, or None."""
    try:
        read_weights(folder / WEIGHTS)
        return None
    except UserError as error:
        return str(error).partition(";")[0]


@contextmanager
def open_loggers(trainer: Trainer, resumed: bool) -> Iterator[None]:
    """Within this context the loggers of `training.log` are open on the first process."""
    if rank() == 0:
        with writing("the events", trainer.folder):
            step = trainer.state.progress.step if resumed else None
            trainer.loggers = build_loggers(trainer.settings.log, trainer.folder, step)
    try:
        yield
    finally:
        for logger in trainer.loggers:
            with suppress(OSError):  # no loss: metrics.jsonl has every record
                logger.close()
