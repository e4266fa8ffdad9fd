"""Shakespeare, character by character."""

import math

import pytest
import torch

from clew.models.gpt import GPTConfig, build_gpt
from clew.sources.tokens import Tokens
from clew.tour.characters import Characters, bits_of, characters_of_shakespeare, predictor
from clew.tour.texts import shakespeare


@pytest.fixture(scope="module")
def characters() -> Characters:
    return characters_of_shakespeare()


def test_the_unseen_text_is_the_validation_part_not_the_training_text(characters: Characters) -> None:
    text = shakespeare()
    assert characters.tokenizer.decode(characters.unseen[-40:].tolist()) == text["valid"][-40:]
    assert len(characters.train) + len(characters.unseen) == sum(map(len, text.values()))


def test_a_batch_is_windows_with_the_next_character_as_target(characters: Characters) -> None:
    batch = characters.batch(3, rows=5, length=7, seed=1)
    same, different = (characters.batch(number, rows=5, length=7, seed=1) for number in (3, 4))
    assert torch.equal(batch.tokens[:, 1:], batch.targets[:, :-1])
    assert torch.equal(batch.tokens, same.tokens)
    assert not torch.equal(batch.tokens, different.tokens)


def test_held_out_windows_span_the_whole_text(characters: Characters) -> None:
    batch = characters.held_out(rows=3, length=6)
    assert batch.tokens[0].tolist() == characters.unseen[:6].tolist()
    assert batch.targets[-1].tolist() == characters.unseen[-6:].tolist()


def test_an_uninformed_model_needs_log2_of_the_vocabulary_bits(characters: Characters) -> None:
    vocabulary = characters.tokenizer.vocabulary
    task = predictor(
        build_gpt(GPTConfig(dim=8, num_layers=1, num_heads=2, max_length=8), Tokens(vocabulary)), characters
    ).eval()
    torch.nn.init.zeros_(task.weight)
    bits = bits_of(task, characters.held_out(rows=5, length=8), rows=2)
    torch.testing.assert_close(bits, torch.full((5, 8), math.log2(vocabulary)))
