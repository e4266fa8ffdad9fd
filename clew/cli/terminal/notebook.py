"""Progress in a notebook: one output with a bar, updated in place. It needs only IPython, and no widgets."""

import sys
import time
from typing import Any

from clew.cli.terminal.progress import Pace, evaluation, shown_numbers
from clew.drawing.progress import progress_html

EVERY = 0.25
"""Seconds between two updates, since the notebook server stores each of them."""
MOST_LINES = 200
"""Messages that are kept in the output."""


def is_notebook() -> bool:
    """Whether this process is a notebook kernel, not IPython in a terminal."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


class NotebookBar:
    """A progress report as HTML: messages with a bar below them."""

    def __init__(self, unit: str = "tokens"):
        self.unit = unit
        self.lines: list[str] = []
        self.done, self.total, self.text = 0, 0, ""
        self.steps: tuple[int, int, str] | None = None
        """The progress of the steps when the current evaluation began."""
        self.pace = Pace()
        self.shown = 0.0
        self.handle: Any = None

    def say(self, text: str) -> None:
        self.lines.append(text)
        self.show()

    def stage(self, text: str) -> None:
        """Show nothing: the notebook itself shows that a cell is running."""

    def encoding(self, done: int, total: int) -> None:
        self.progress(done, total, f"encoding text: {done:,} of {total:,} characters")

    def evaluating(self, done: int, total: int) -> None:
        """Show the evaluation instead of the steps until it is done."""
        if self.steps is None:
            self.steps = self.done, self.total, self.text
        self.progress(done, total, f"evaluating: {done:,} of {total:,} batches")
        if done == total:
            (self.done, self.total, self.text), self.steps = self.steps, None

    def step(self, record: Any, steps: int, tokens_per_second: float) -> None:
        left = self.pace.left(record.step, steps)
        self.progress(
            record.step,
            steps,
            f"step {record.step} of {steps}: {shown_numbers(record, tokens_per_second, self.unit)}{left}",
        )

    def evaluated(self, step: int, score: Any, is_best: bool) -> None:
        self.say(evaluation(step, score, is_best))

    def progress(self, done: int, total: int, text: str) -> None:
        self.done, self.total, self.text = done, total, text
        if done == total or time.monotonic() - self.shown > EVERY:
            self.show()

    def show(self) -> None:
        from IPython.display import display

        self.shown = time.monotonic()
        content = {
            "text/html": self.html(),
            "text/plain": "\n".join([*self.lines[-MOST_LINES:], *([self.text] if self.text else [])]),
        }
        if self.handle is None:
            self.handle = display(content, raw=True, display_id=True)
        else:
            self.handle.update(content, raw=True)

    def html(self) -> str:
        return progress_html(self.lines[-MOST_LINES:], self.done, self.total, self.text)

    def __enter__(self) -> "NotebookBar":
        return self

    def __exit__(self, *_: Any) -> None:
        if self.handle is not None:
            self.show()
