"""Log every `training.log_every`-th step, the last one and skipped ones. The logged speed is that of training only."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from clew.core.errors import UserError
from clew.core.processes import world_size
from clew.training.hardware import peak_memory
from clew.training.records import Record
from clew.training.trainer import Trainer


class StepLog:
    """Collects steps, and logs them in order after the host has read their numbers."""

    def __init__(self, trainer: Trainer):
        self.trainer = trainer
        self.unwritten: list[Record] = []
        self.count = 0
        self.clock = time.perf_counter()

    def add(self, record: Record) -> None:
        self.unwritten.append(record)
        self.count += record.count

    def write(self, now: float) -> None:
        """Log the collected steps that are due. Waits for the device."""
        settings, report = self.trainer.settings, self.trainer.watchers.report
        due = [
            each
            for each in self.unwritten
            if each.skipped or each.step % settings.log_every == 0 or each.step == settings.steps
        ]
        self.unwritten = []
        for record in due:
            speed = self.count / max(now - self.clock, 1e-9)
            report.step(record, settings.steps, speed)
            self.trainer.log({"step": record.step, **measures(record, speed, self.trainer)})
        if due:
            self.clock, self.count = now, 0

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Within this context the skipped steps that make training fail are logged before the error is raised."""
        try:
            yield
        except UserError:
            self.write(time.perf_counter())
            raise

    def exclude(self, seconds: float) -> None:
        """Exclude time that was not spent on training from the speed."""
        self.clock += seconds


def measures(record: Record, speed: float, trainer: Trainer) -> dict[str, Any]:
    """Return the metrics of a step to log."""
    values: dict[str, Any] = {f"train.{name}": value for name, value in record.losses.items()}
    if len(record.counts) > 1:
        values |= {f"train.{name}_count": count for name, count in record.counts.items()}
    values |= {"epoch": record.epoch, "gradient_norm": record.gradient_norm, "learning_rate": record.learning_rate}
    values[f"{trainer.unit}_per_second"] = round(speed)
    if trainer.peak is not None:
        values["flop_utilisation"] = round(speed * trainer.flops_per_token / (trainer.peak * world_size()), 4)
    if (memory := peak_memory(trainer.device)) is not None:
        values["peak_memory"] = memory
    if record.skipped:
        values["skipped"] = True
    values["seconds"] = round(trainer.state.progress.seconds, 3)
    return values
