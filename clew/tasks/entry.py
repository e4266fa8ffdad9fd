"""An entry in TASKS: all that the rest of the library knows of a task. Independent of tasks, runs, command line and
server.

An entry says how a task is built, how it learns, and what a trained run can do: its uses. The command line, the server,
JSON output, model cards and evaluation are generic over entries, so a task is one file.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from clew.baselines.baseline import Fit, no_baselines
from clew.core.config import TaskSection
from clew.core.errors import UserError
from clew.core.wording import call
from clew.data.kinds.section import DataSection
from clew.tasks.learning import Learning
from clew.tasks.use import Use


@dataclass(frozen=True)
class TaskEntry:
    """A task in TASKS. `build(body, vocabularies, config)` returns the module. `needs` names what the body must offer.
    `vocabularies` maps each role to the vocabulary's type. The first of `uses` is the main purpose of a run; a task
    without uses is trained for its vectors, which other runs read."""

    config: type[TaskSection]
    build: Callable[..., nn.Module]
    needs: tuple[str, ...] = ()
    vocabularies: Mapping[str, Any] = field(default_factory=dict)
    takes_encoder: bool = False
    """Whether the body of another run may encode the source."""
    learning: Learning[Any, Any] | None = None
    """How the task learns; None if there is nothing to learn."""
    baselines: Fit = no_baselines
    uses: Mapping[str, Use[Any, Any]] = field(default_factory=dict)
    pipeline: str | None = None
    """The pipeline tag in other libraries, for model cards."""
    gives: tuple[str, ...] = ()
    """What batches hold besides a sequence, for bodies that read it. Bodies that read only the sequence work too."""

    @property
    def section(self) -> type[DataSection]:
        """The type of the config's section `data`."""
        return DataSection if self.learning is None else self.learning.section

    @property
    def learns(self) -> Learning[Any, Any]:
        """How the task learns. Raises UserError if there is nothing to learn."""
        if self.learning is None:
            finetune = call(
                "clew.train('finetune-classify', transfer__from=RUN, data__train=FILE)",
                "clew train finetune-classify transfer.from=RUN data.train=FILE",
            )
            raise UserError(
                f"the task {self.config().name} has nothing to learn, so it has no score; fine-tune its run for another"
                f" task, e.g. {finetune}"
            )
        return self.learning

    @property
    def is_running(self) -> bool:
        """Whether the task learns from running text."""
        return self.learning is not None and self.learning.is_running
