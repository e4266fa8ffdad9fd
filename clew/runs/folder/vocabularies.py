"""A run's vocabularies by role: tokenizers and label tables, each a JSON file in vocabulary/."""

from pathlib import Path
from typing import Any

from clew.runs.config import Config
from clew.runs.embedding import CONTEXT, BorrowedBody
from clew.runs.folder.run_files import VOCABULARY
from clew.runs.transfer import ENCODER, has_encoder
from clew.tasks import TASKS

TOKENIZER = "tokenizer"
"""The role of the tokenizer in a run that has only one."""


def save_vocabularies(folder: Path, vocabularies: dict[str, Any]) -> None:
    for role, vocabulary in vocabularies.items():
        vocabulary.save(folder / VOCABULARY / f"{role}.json")


def load_vocabularies(folder: Path, config: Config) -> dict[str, Any]:
    """Load the vocabularies that the run's task needs."""
    return {role: kind.load(folder / VOCABULARY / f"{role}.json") for role, kind in vocabulary_types(config).items()}


def vocabulary_types(config: Config) -> dict[str, Any]:
    """Return the type of each vocabulary by role."""
    kinds = dict(TASKS[config.task.name].vocabularies)
    if config.embedding.source is not None:
        kinds[CONTEXT] = BorrowedBody
    if has_encoder(config):
        kinds[ENCODER] = BorrowedBody
    return kinds
