"""Progress of training on standard error: a bar on a terminal, plain lines in a pipe."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any


def clock(seconds: float) -> str:
    """Format a duration: 1:02:03, or 2:03 below an hour."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


_quiet: ContextVar[bool] = ContextVar("quiet", default=False)


@contextmanager
def quieted(enabled: bool) -> Iterator[None]:
    """Suppress progress, notes and advice within this context, if enabled."""
    token = _quiet.set(enabled)
    try:
        yield
    finally:
        _quiet.reset(token)


def say(text: str) -> None:
    """Print a message on standard error; if several processes train together, only the first one prints."""
    if os.environ.get("RANK", "0") == "0" and not _quiet.get():
        print(text, file=sys.stderr, flush=True)


class Lines:
    """Plain progress lines; for steps, at most one every few seconds."""

    def __init__(self, every: float = 5.0, unit: str = "tokens"):
        self.every = every
        self.unit = unit
        self.last = 0.0
        self.evaluation: tuple[float, float] | None = None
        """When the current evaluation began, and when its last line was printed."""
        self.pace = Pace()

    def say(self, text: str) -> None:
        say(text)

    def stage(self, text: str) -> None:
        """Print nothing: a log records what was done, not the current stage."""

    def encoding(self, done: int, total: int) -> None:
        if done == total or time.monotonic() - self.last > self.every:
            self.last = time.monotonic()
            self.say(f"encoding: {done:,} of {total:,}")

    def step(self, record: Any, steps: int, tokens_per_second: float) -> None:
        left = self.pace.left(record.step, steps)
        if record.step < steps and time.monotonic() - self.last < self.every and not record.skipped:
            return
        self.last = time.monotonic()
        self.say(f"step {record.step} of {steps}: {shown_numbers(record, tokens_per_second, self.unit)}{left}")

    def evaluating(self, done: int, total: int) -> None:
        """Print a line every few seconds, and none for a short evaluation."""
        now = time.monotonic()
        if done == 1 or self.evaluation is None:
            self.evaluation = (now, now)
        began, last = self.evaluation
        if done < total and now - last >= self.every:
            self.evaluation = (began, now)
            self.say(f"evaluating: {done:,} of {total:,} batches, {clock((now - began) / done * (total - done))} left")

    def evaluated(self, step: int, score: Any, is_best: bool) -> None:
        self.say(evaluation(step, score, is_best))

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *_: Any) -> None:
        pass


class Pace:
    """Estimates the time left from the steps since the first call."""

    def __init__(self) -> None:
        self.first: tuple[int, float] | None = None

    def left(self, step: int, steps: int) -> str:
        """Return `, 2:03 left`, or an empty string at the first call."""
        now = time.monotonic()
        if self.first is None:
            self.first = (step, now)
        first, began = self.first
        return f", {clock((now - began) / (step - first) * (steps - step))} left" if step > first else ""


def shown_numbers(record: Any, tokens_per_second: float, unit: str = "tokens") -> str:
    skipped = " (skipped: not finite)" if record.skipped else ""
    return (
        f"loss {record.loss:.4f}{skipped}, learning rate {record.learning_rate:.2g}, gradient norm"
        f" {record.gradient_norm:.2g}, {tokens_per_second:,.0f} {unit}/s"
    )


def evaluation(step: int, score: Any, is_best: bool) -> str:
    return f"step {step}, validation: {score}{' (best so far)' if is_best else ''}"


@contextmanager
def in_python(quiet: bool, unit: str = "tokens") -> Iterator[Any]:
    """Report the progress of training from Python: a bar in a notebook, otherwise plain lines."""
    from clew.cli.terminal.notebook import NotebookBar, is_notebook
    from clew.training.report import Silence

    if quiet:
        yield Silence()
    elif is_notebook():
        with NotebookBar(unit) as bar:
            yield bar
    else:
        yield Lines(unit=unit)


def report() -> Any:
    if not sys.stderr.isatty() or _quiet.get():
        return Lines()
    from clew.cli.terminal.bar import Bar

    return Bar()
