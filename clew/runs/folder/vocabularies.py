"""The vocabularies of a run, by role: tokenizers and label tables, one JSON file each below vocabulary/."""

from pathlib import Path
from typing import Any

from clew.runs.config import Config
from clew.runs.directory import VOCABULARY
from clew.runs.embedding import CONTEXT, BorrowedBody
from clew.runs.transfer import ENCODER, has_encoder
from clew.tasks import TASKS

TOKENIZER = "tokenizer"
"""The role of the only tokenizer, where there is one."""


def save_vocabularies(folder: Path, vocabularies: dict[str, Any]) -> None:
    for role, vocabulary in vocabularies.items():
        vocabulary.save(folder / VOCABULARY / f"{role}.json")


def load_vocabularies(folder: Path, config: Config) -> dict[str, Any]:
    """Those that the run's task asks for."""
    return {role: kind.load(folder / VOCABULARY / f"{role}.json") for role, kind in kinds_of(config).items()}


def kinds_of(config: Config) -> dict[str, Any]:
    """The type of each by role."""
    kinds = dict(TASKS[config.task.name].vocabularies)
    if config.embedding.source is not None:
        kinds[CONTEXT] = BorrowedBody
    if has_encoder(config):
        kinds[ENCODER] = BorrowedBody
    return kinds
