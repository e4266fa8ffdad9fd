"""What a task is to the rest of the house: one entry in TASKS. Knows no task, no run, no command line and no server.

An entry says how a task is built, what it learns from, and what may be asked of a trained run: its uses. Command line, server, JSON, model
cards and evaluation are generic over entries, so that a task is one file.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from clew.core.config import TaskSection
from clew.tasks.use import Use


@dataclass(frozen=True)
class TaskEntry:
    """A task in TASKS. `build(body, vocabularies, config)` makes the module; `needs` is what it asks of a body; `vocabularies` has the type
    of each by role. The first of `uses` is what a run of it is for; where there are none, other runs read its vectors."""

    config: type[TaskSection]
    build: Callable[..., nn.Module]
    needs: tuple[str, ...] = ()
    vocabularies: Mapping[str, Any] = field(default_factory=dict)
    data: str = "text"
    train_vocabularies: Callable[..., dict[str, Any]] | None = None
    verb: str = "generate"
    uses: Mapping[str, Use[Any, Any]] = field(default_factory=dict)
    pipeline: str | None = None
    """What other libraries call such a model, for model cards."""
