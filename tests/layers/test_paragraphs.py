"""The two levels of a paragraph decoder: their equations, padding, and steps."""

import numpy as np
import pytest
import torch

from clew.core.state import select_rows
from clew.core.types import Memory
from clew.layers.paragraphs import SentencePlanner, SentenceWriter
from tests.references import paragraphs as references
from tests.references.agreement import assert_agrees, randn, randomise

LENGTHS = [4, 2]
MASK = torch.arange(4) < torch.tensor(LENGTHS)[:, None]


def cut(values: np.ndarray) -> list[np.ndarray]:
    return [row[:length] for row, length in zip(values, LENGTHS, strict=True)]


def planner() -> SentencePlanner:
    return randomise(SentencePlanner(3, 5, 4))  # type: ignore[return-value]


def plan(
    module: SentencePlanner, sentences: torch.Tensor, values: torch.Tensor, mask: torch.Tensor | None = MASK
) -> torch.Tensor:
    topics, _ = module(sentences, module.initial_state(Memory(values, mask)))
    return torch.cat([topics.topics, topics.stops[..., None]], -1)


def test_a_planner_equals_its_equations_in_values_and_gradients():
    module = planner()
    assert_agrees(
        module,
        lambda read, values: plan(module, read, values),
        lambda p, read, values: references.planned(p, read, cut(values)),
        randn(2, 3, 3),
        randn(2, 4, 5, seed=5),
    )


@pytest.mark.parametrize("with_phrases", [False, True])
def test_a_writer_equals_its_equations_in_values_and_gradients(with_phrases):
    module = randomise(SentenceWriter(3, 5, 4, phrase_dim=2 if with_phrases else None))

    def call(words, topics, values, phrases):
        phrase_memory = Memory(phrases, MASK) if with_phrases else None
        return module(words, None, module.initial_state(topics, Memory(values, MASK), phrase_memory))[0]

    assert_agrees(
        module,
        call,
        lambda p, words, topics, values, phrases: references.written(
            p, words, topics, cut(values), cut(phrases) if with_phrases else None
        ),
        randn(2, 3, 3),
        randn(2, 4, seed=2),
        randn(2, 4, 5, seed=5),
        randn(2, 4, 2, seed=6),
    )


def test_padding_of_a_picture_changes_no_plan():
    module, sentences, values = planner(), randn(2, 3, 3), randn(2, 4, 5, seed=5)
    alone = plan(module, sentences[1:], values[1:, :2], None)
    values[1, 2:] = 1e3
    torch.testing.assert_close(plan(module, sentences, values)[1:], alone)


def test_a_planner_gives_the_same_sentence_by_sentence_and_at_once():
    module, sentences, values = planner(), randn(2, 3, 3), randn(2, 4, 5, seed=5)
    state, steps = module.initial_state(Memory(values, MASK)), []
    for sentence in range(3):
        step, state = module(sentences[:, sentence : sentence + 1], state)
        steps.append(torch.cat([step.topics, step.stops[..., None]], -1))
    torch.testing.assert_close(torch.cat(steps, 1), plan(module, sentences, values))


def test_sentences_that_share_a_picture_equal_sentences_with_a_picture_each():
    module = randomise(SentenceWriter(3, 5, 4, phrase_dim=2))
    words, topics, values, phrases = randn(6, 3, 3), randn(6, 4, seed=2), randn(2, 4, 5, seed=5), randn(2, 4, 2, seed=6)
    shared, state = module(words, None, module.initial_state(topics, Memory(values, MASK), Memory(phrases, MASK)))
    repeated = [Memory(part.repeat_interleave(3, 0), MASK.repeat_interleave(3, 0)) for part in (values, phrases)]
    each, _ = module(words, None, module.initial_state(topics, *repeated))
    torch.testing.assert_close(shared, each)
    order = torch.tensor([2, 0, 1, 3, 3, 5])
    moved, _ = module(words[order], None, select_rows(state, order))
    stayed, _ = module(words, None, state)
    torch.testing.assert_close(moved, stayed[order])
