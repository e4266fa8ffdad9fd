"""A progress bar on a terminal, on one line at any width: first the current stage, then the steps of training."""

import sys
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task
from rich.table import Column
from rich.text import Text

from clew.cli.terminal.progress import clock, evaluation
from clew.cli.terminal.screen import Screen, behind, escape_controls

WIDE, MIDDLE = 100, 60
"""Least columns of a terminal for all numbers, and for the loss only."""
LEAST_BAR = 8
LARGE = 100_000


class Words(ProgressColumn):
    """The stage and its progress: `step 120/300`, or a percentage if the total is large."""

    def render(self, task: Task) -> Text:
        if task.total is None:
            return Text(task.description)
        share = (
            f"{task.completed / task.total:.0%}" if task.total >= LARGE else f"{task.completed:.0f}/{task.total:.0f}"
        )
        return Text(f"{task.description} {share}")


class Numbers(ProgressColumn):
    """As many numbers as fit on the terminal."""

    def __init__(self, console: Console):
        super().__init__(Column(no_wrap=True, overflow="ellipsis"))
        self.console = console

    def render(self, task: Task) -> Text:
        numbers: list[str] = task.fields["numbers"]
        width = self.console.width
        return Text(" ".join(numbers if width >= WIDE else numbers[:1] if width >= MIDDLE else []))


class Clock(ProgressColumn):
    """The time left, or the elapsed time while it cannot be estimated yet."""

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        if task.total is None or task.time_remaining is None:
            return Text(clock(task.elapsed or 0.0))
        return Text(f"{clock(task.time_remaining)} left")


class Bar:
    """Shows the progress of a run; messages are printed above the bar."""

    def __init__(self) -> None:
        self.console = Console(file=behind(sys.stderr))
        self.progress = Progress(
            Words(Column(no_wrap=True)),
            BarColumn(None, table_column=Column(ratio=1, min_width=LEAST_BAR)),
            Numbers(self.console),
            Clock(Column(no_wrap=True, justify="right")),
            console=self.console,
            expand=True,
        )
        self.tasks: dict[str, Any] = {}
        self.shown: str | None = None

    def say(self, text: str) -> None:
        self.progress.console.print(escape_controls(text), markup=False, highlight=False, soft_wrap=True)

    def stage(self, text: str) -> None:
        """Show a stage of unknown length."""
        self._show(text, 0, None, [])

    def encoding(self, done: int, total: int) -> None:
        self._show_until_done("encoding", done, total, [])

    def evaluating(self, done: int, total: int) -> None:
        self._show_until_done("evaluating", done, total, ["batches"])

    def step(self, record: Any, steps: int, tokens_per_second: float) -> None:
        skipped = " (skipped)" if record.skipped else ""
        rates = [
            f"lr {record.learning_rate:.0e}",
            f"norm {record.gradient_norm:.2f}",
            f"{tokens_per_second / 1000:,.0f}k tok/s",
        ]
        self._show("step", record.step, steps, [f"loss {record.loss:.3f}{skipped}", *rates])

    def evaluated(self, step: int, score: Any, is_best: bool) -> None:
        self.say(evaluation(step, score, is_best))

    def _show(self, name: str, done: int, total: int | None, numbers: list[str]) -> None:
        if self.shown is not None and self.shown != name:
            self.progress.update(self.tasks[self.shown], visible=False)  # it keeps its speed estimate
        if name not in self.tasks:
            self.tasks[name] = self.progress.add_task(name, total=total, numbers=numbers)
        self.shown = name
        self.progress.update(self.tasks[name], completed=done, total=total, numbers=numbers, visible=True)

    def _show_until_done(self, name: str, done: int, total: int, numbers: list[str]) -> None:
        """Show a stage, and remove it at its end, so that the next one of its kind has a new clock."""
        self._show(name, done, total, numbers)
        if done == total:
            self.progress.remove_task(self.tasks.pop(name))
            self.shown = None

    def __enter__(self) -> "Bar":
        self.before = sys.stdout, sys.stderr
        self.progress.start()
        # rich now redirects the streams, and what is printed through them is for a person too
        sys.stdout, sys.stderr = Screen(sys.stdout), Screen(sys.stderr)
        return self

    def __exit__(self, *_: Any) -> None:
        self.progress.stop()
        sys.stdout, sys.stderr = self.before
