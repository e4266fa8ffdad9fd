"""Tasks, one a file: what turns a body's vectors into scores, a loss and predictions."""

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import nn

from clew.core.config import Section
from clew.tasks.language_model import LanguageModel, LanguageModelConfig
from clew.text.tokenizer import Tokenizer


class TaskKind(NamedTuple):
    """`build(body, vocabularies, config)`; `vocabularies` has the type of each by role; `data` names the kind of data it learns from."""

    config: type[Section]
    build: Callable[..., nn.Module]
    needs: tuple[str, ...]
    vocabularies: dict[str, Any]
    data: str = "text"


def build_language_model(body: Any, vocabularies: dict[str, Any], config: LanguageModelConfig) -> LanguageModel:
    return LanguageModel(body, vocabularies["tokenizer"], config)


TASKS: dict[str, TaskKind] = {
    "language_model": TaskKind(LanguageModelConfig, build_language_model, LanguageModel.needs, {"tokenizer": Tokenizer}),
}
