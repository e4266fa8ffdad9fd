"""What a run trains: a task, its batches, and how it is measured. The loop and the run know no data and no metric
beyond this."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from torch import nn

from clew.core.batches import Batches
from clew.core.identity import Known
from clew.metrics.score import Score
from clew.tasks.learning import Autocast

OnProgress = Callable[[int, int], None]
"""Called with how many batches of an evaluation are done, and how many there are."""


def no_progress(done: int, total: int) -> None:
    """Shows nothing."""


class Judge(Protocol):
    """Scores a part of the data, each process its share; None where `interrupted` says to stop, which a process alone
    may do.

    `forward` is the task or its compiled form; `progress` is called after each batch.
    A `final` evaluation decodes as the config says, those on the way greedily.
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
    task: Any
    vocabularies: dict[str, Any]
    """Every tokenizer and label table, by role."""
    batches: Batches
    parts: tuple[str, ...]
    """What can be scored: valid, and test where there is one."""
    judge: Judge
    about: str
    """The data, in a sentence."""
    identity: dict[str, Known]
    """What a resumed run must find again."""
    notes: tuple[str, ...] = ()
    """What a person should know of the data, a line each."""
    settle: Callable[[Any, Autocast], bool] = lambda task, autocast: False
    """Gives a trained task what is taken from the validation part alone; whether that has changed it."""
