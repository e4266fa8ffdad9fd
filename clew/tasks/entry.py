"""What a task is to the rest of the house: one entry in TASKS. Knows no task, no run, no command line and no server.

An entry says how a task is built, what it learns from, and what may be asked of a trained run: its uses. Command line,
server, JSON, model cards and evaluation are generic over entries, so that a task is one file.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from clew.baselines.beside import Fit, no_baselines
from clew.core.config import TaskSection
from clew.core.errors import UserError
from clew.data.kinds.section import DataSection
from clew.tasks.learning import Learning
from clew.tasks.use import Use


@dataclass(frozen=True)
class TaskEntry:
    """A task in TASKS. `build(body, vocabularies, config)` makes the module; `needs` is what it asks of a body;
    `vocabularies` has the type of each by role. The first of `uses` is what a run of it is for; where there are none,
    other runs read its vectors."""

    config: type[TaskSection]
    build: Callable[..., nn.Module]
    needs: tuple[str, ...] = ()
    vocabularies: Mapping[str, Any] = field(default_factory=dict)
    takes_encoder: bool = False
    """Whether a task with a source may read it by another run's body."""
    learning: Learning[Any, Any] | None = None
    """How it learns; None where there is nothing to learn."""
    baselines: Fit = no_baselines
    uses: Mapping[str, Use[Any, Any]] = field(default_factory=dict)
    pipeline: str | None = None
    """What other libraries call such a model, for model cards."""
    gives: tuple[str, ...] = ()
    """What its batches have besides a sequence, for bodies that read it; one that reads the sequence alone will do
    too."""

    @property
    def section(self) -> type[DataSection]:
        """The section `data` of its configs."""
        return DataSection if self.learning is None else self.learning.section

    @property
    def learns(self) -> Learning[Any, Any]:
        """How it learns; refused where there is nothing to learn."""
        if self.learning is None:
            raise UserError(
                f"the task {self.config().name} has nothing to learn, and so nothing to be scored by; train another"
                " task on its run, e.g. `clew train finetune-classify transfer.from=RUN data.train=FILE`"
            )
        return self.learning

    @property
    def is_running(self) -> bool:
        """Whether its bodies learn from running text."""
        return self.learning is not None and self.learning.is_running
