"""Every score and hard attention has a setting that is built, and every step of a target whose place is known is
counted."""

import pytest

from benchmarks.attention_scores import ATTENTIONS, TASKS, aligned, setting
from clew.data.kinds.pairs import PAIRS
from clew.runs.build import build_task
from clew.runs.config import Config, resolve
from clew.tasks.shared.sequence import train_sequence_vocabularies
from clew.text.train import train_word


def small(task: str, attention: str) -> Config:
    whole = setting(task, attention, steps=10, seed=1).model_dump(mode="json")
    whole["data"] |= {"size": 40}
    whole["model"] |= {"dim": 8}
    return resolve(whole)


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("task", TASKS)
def test_every_step_is_counted_once(task: str, attention: str) -> None:
    config = small(task, attention)
    parts = PAIRS.read(config.data, config.seed)
    pairs = [pair for part in parts.values() for pair in part]
    vocabularies = train_sequence_vocabularies(
        lambda texts, more: train_word(texts, specials=more), True, pairs, config.task
    )  # type: ignore[arg-type]
    found = aligned(config, build_task(config, vocabularies).eval())
    assert found.total == sum(len(pair.target.split()) for pair in parts["valid"])
    assert found.right < found.total
