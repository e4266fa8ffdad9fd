"""How a run is shown while it trains: a bar on a terminal, plain lines on a pipe; always on standard error."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from clew.cli.screen import Screen, behind, shown


def clock(seconds: float) -> str:
    """1:02:03, or 2:03 below an hour."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


_quiet: ContextVar[bool] = ContextVar("quiet", default=False)


@contextmanager
def quieted(asked: bool) -> Iterator[None]:
    """Within this context nothing is said, where that is asked for: neither progress nor notes nor advice."""
    token = _quiet.set(asked)
    try:
        yield
    finally:
        _quiet.reset(token)


def say(text: str) -> None:
    """On standard error; where several processes train together, the first speaks for all."""
    if os.environ.get("RANK", "0") == "0" and not _quiet.get():
        print(text, file=sys.stderr, flush=True)


class Lines:
    """Plain lines, at most one every few seconds for steps."""

    def __init__(self, every: float = 5.0, unit: str = "tokens"):
        self.every = every
        self.unit = unit
        self.last = 0.0
        self.pace = Pace()

    def say(self, text: str) -> None:
        say(text)

    def encoding(self, done: int, total: int) -> None:
        if done == total or time.monotonic() - self.last > self.every:
            self.last = time.monotonic()
            self.say(f"encoding text: {done:,} of {total:,} characters")

    def step(self, record: Any, steps: int, tokens_per_second: float) -> None:
        left = self.pace.left(record.step, steps)
        if record.step < steps and time.monotonic() - self.last < self.every and not record.skipped:
            return
        self.last = time.monotonic()
        self.say(f"step {record.step} of {steps}: {numbers(record, tokens_per_second, self.unit)}{left}")

    def evaluated(self, step: int, score: Any, is_best: bool) -> None:
        self.say(evaluation(step, score, is_best))

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *_: Any) -> None:
        pass


class Bar:
    """A progress bar on a terminal, with what is said above it."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
        from rich.table import Column

        self.console = Console(file=behind(sys.stderr))
        self.progress = Progress(
            TextColumn("{task.description} {task.completed:.0f}/{task.total:.0f}"),
            BarColumn(bar_width=6),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(compact=True, table_column=Column(no_wrap=True, min_width=5)),
            TextColumn("left"),
            console=self.console,
        )
        self.tasks: dict[str, Any] = {}

    def say(self, text: str) -> None:
        self.progress.console.print(shown(text), markup=False, highlight=False, soft_wrap=True)

    def encoding(self, done: int, total: int) -> None:
        self._show("encoding", done, total, "characters")
        if done == total:
            self.progress.remove_task(self.tasks.pop("encoding"))

    def step(self, record: Any, steps: int, tokens_per_second: float) -> None:
        skipped = " (skipped)" if record.skipped else ""
        rates = f"lr {record.learning_rate:.0e} norm {record.gradient_norm:.2f} {tokens_per_second / 1000:,.0f}k tok/s"
        text = f"loss {record.loss:.3f}{skipped} {rates}"
        self._show("step", record.step, steps, text)

    def evaluated(self, step: int, score: Any, is_best: bool) -> None:
        self.say(evaluation(step, score, is_best))

    def _show(self, name: str, done: int, total: int, text: str) -> None:
        if name not in self.tasks:
            self.tasks[name] = self.progress.add_task(name, total=total, numbers=text)
        self.progress.update(self.tasks[name], completed=done, total=total, numbers=text)

    def __enter__(self) -> "Bar":
        self.before = sys.stdout, sys.stderr
        self.progress.start()  # what is printed meanwhile goes through streams of its own to the console, and is for a person too
        sys.stdout, sys.stderr = Screen(sys.stdout), Screen(sys.stderr)
        return self

    def __exit__(self, *_: Any) -> None:
        self.progress.stop()
        sys.stdout, sys.stderr = self.before


class Pace:
    """Time left, from the steps seen since the first one."""

    def __init__(self) -> None:
        self.first: tuple[int, float] | None = None

    def left(self, step: int, steps: int) -> str:
        """`, 2:03 left`, or nothing before there is a pace."""
        now = time.monotonic()
        if self.first is None:
            self.first = (step, now)
        first, began = self.first
        return f", {clock((now - began) / (step - first) * (steps - step))} left" if step > first else ""


def numbers(record: Any, tokens_per_second: float, unit: str = "tokens") -> str:
    skipped = " (skipped: not finite)" if record.skipped else ""
    return (
        f"loss {record.loss:.4f}{skipped}, learning rate {record.learning_rate:.2g}, gradient norm {record.gradient_norm:.2g}, "
        f"{tokens_per_second:,.0f} {unit}/s"
    )


def evaluation(step: int, score: Any, is_best: bool) -> str:
    return f"step {step}, validation: {score}{' (best so far)' if is_best else ''}"


def report() -> Lines | Bar:
    return Bar() if sys.stderr.isatty() and not _quiet.get() else Lines()
