"""Which steps a run logs: every so many, the last, and all that were skipped; with the speed of training alone."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from clew.core.errors import UserError
from clew.training.records import Record
from clew.training.running import Running, log_step


class StepLog:
    """Steps are added as they come, and written when the host has looked at them: in their order, those skipped among
    them."""

    def __init__(self, running: Running):
        self.running = running
        self.unwritten: list[Record] = []
        self.count = 0
        self.clock = time.perf_counter()

    def add(self, record: Record) -> None:
        self.unwritten.append(record)
        self.count += record.count

    def write(self, now: float) -> None:
        """Waits for the steps that were added, and logs those that are to be."""
        settings, report = self.running.settings, self.running.report
        due = [
            each
            for each in self.unwritten
            if each.skipped or each.step % settings.log_every == 0 or each.step == settings.steps
        ]
        self.unwritten = []
        for record in due:
            speed = self.count / max(now - self.clock, 1e-9)
            report.step(record, settings.steps, speed)
            log_step(self.running, record, speed)
        if due:
            self.clock, self.count = now, 0

    @contextmanager
    def given_up(self) -> Iterator[None]:
        """Within this context the skipped steps for which training is given up are logged before it ends."""
        try:
            yield
        except UserError:
            self.write(time.perf_counter())
            raise

    def leave_out(self, seconds: float) -> None:
        """Time that was not spent on training."""
        self.clock += seconds
