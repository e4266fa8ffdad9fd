"""A cache of trained tokenizers and label tables. The key is the content of the training text and the settings, because
a second run with the same ones would train the same vocabularies."""

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from clew.core.files import cache_folder, json_hash, private_folder, write_private
from clew.data.caching.fingerprints import code_digest
from clew.data.caching.verified import DAMAGE
from clew.runs.config import Config
from clew.tasks import TASKS
from clew.text.train import TOKENIZERS

FORMAT = 1


def cached_vocabularies(
    config: Config, content: str | None, train: Callable[[], Mapping[str, Any]]
) -> Mapping[str, Any]:
    """Return the result of `train`, cached by content and settings. Nothing is cached for small texts, which have no
    `content`, or for a run that takes its tokenizer from a base run or words from a vector file."""
    entry = TASKS[config.task.name]
    code = code_digest(
        (type(entry.learning), getattr(entry.learning, "train", None), TOKENIZERS[config.text.tokenizer])
    )
    if content is None or code is None or config.transfer.source is not None or config.embedding.vectors is not None:
        return train()
    settings = [FORMAT, content, config.text.model_dump(mode="json"), config.task.model_dump(mode="json"), code]
    path = cache_folder() / f"{json_hash(settings)[:32]}.vocabularies"
    with suppress(*DAMAGE):
        about = json.loads(path.read_text(encoding="utf-8"))
        if about.pop("sha256") == json_hash(about):
            return {role: entry.vocabularies[role].from_json(text) for role, text in about["vocabularies"].items()}
    vocabularies = train()
    about = {"vocabularies": {role: vocabulary.to_json() for role, vocabulary in vocabularies.items()}}
    with suppress(OSError):  # if the cache cannot be written, the next run trains them again
        private_folder(path.parent)
        aside = path.with_suffix(f".partial-{os.getpid()}")
        write_private(aside, json.dumps({**about, "sha256": json_hash(about)}))
        aside.replace(path)
    return vocabularies
