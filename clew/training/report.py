"""Whom a run tells what it does."""

from typing import Protocol

from clew.metrics.score import Score
from clew.training.records import Record


class Report(Protocol):
    """The command line shows what it is told, a notebook may not."""

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
