"""Every score and hard attention has a config that can be built, and every step of a target with a known alignment is
counted."""

import pytest

from benchmarks.attention_scores import ATTENTIONS, TASKS, make_config, score_alignment
from clew.data.kinds.pairs import PAIRS
from clew.runs.build import build_task
from clew.runs.config import Config, resolve
from clew.tasks.shared.sequence import train_sequence_vocabularies
from clew.text.train import train_word


def small(task: str, attention: str) -> Config:
    whole = make_config(task, attention, steps=10, seed=1).model_dump(mode="json")
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
    accuracy = score_alignment(config, build_task(config, vocabularies).eval())
    assert accuracy.total == sum(len(pair.target.split()) for pair in parts["valid"])
    assert accuracy.right < accuracy.total
