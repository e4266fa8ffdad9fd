"""A training problem: a task, its batches, and its evaluation. The training loop and the run know nothing else of data
and metrics."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from torch import nn

from clew.core.batches import Batches
from clew.core.identity import Known
from clew.metrics.score import Score
from clew.tasks.learning import Autocast

OnProgress = Callable[[int, int], None]
"""Called with the number of evaluated batches, and the number of all batches."""


def no_progress(done: int, total: int) -> None:
    """Do nothing."""


class Judge(Protocol):
    """Evaluate a part of the data; each process evaluates its share. Return None if `interrupted()` is True, which is
    checked only if there is one process.

    `forward` is the task or its compiled form. `progress` is called after each batch. A `final` evaluation decodes as
    configured; evaluations during training decode greedily.
    """

    def __call__(
        self,
        part: str,
        task: nn.Module,
        forward: Any,
        autocast: Autocast,
        interrupted: Callable[[], bool],
        *,
        final: bool = False,
        progress: OnProgress = no_progress,
    ) -> Score | None: ...


@dataclass
class Problem:
    """A task, its batches and its evaluation."""

    task: Any
    vocabularies: dict[str, Any]
    """Every tokenizer and label table, by role."""
    batches: Batches
    parts: tuple[str, ...]
    """The parts that can be evaluated: valid, and test if there is one."""
    judge: Judge
    about: str
    """A description of the data, for the report."""
    identity: dict[str, Known]
    """Facts that must not change when a run is resumed."""
    notes: tuple[str, ...] = ()
    """Notes on the data for the report, one line each."""
    settle: Callable[[Any, Autocast], bool] = lambda task, autocast: False
    """Set the values of a trained task that are chosen on the validation part; return whether the task has changed."""
