"""Tasks, one a file: what turns a body's vectors into scores, a loss and predictions."""

from collections.abc import Callable
from typing import NamedTuple

from torch import nn

from clew.core.config import Section
from clew.tasks.language_model import LanguageModel, LanguageModelConfig


class TaskKind(NamedTuple):
    config: type[Section]
    build: Callable[..., nn.Module]
    needs: tuple[str, ...]


TASKS: dict[str, TaskKind] = {"language_model": TaskKind(LanguageModelConfig, LanguageModel, LanguageModel.needs)}
