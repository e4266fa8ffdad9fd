import numpy as np
import pytest
import torch
import torch.nn.functional as F

from clew.core.config import build_part
from clew.core.errors import UserError
from clew.layers.characters import CHARACTERS, CharacterCNN
from tests.references.agreement import assert_agrees, randomise
from tests.references.characters import CASES

LETTERS = torch.tensor([[[1, 2, 3, 4], [2, 0, 0, 0], [1, 2, 3, 4]], [[3, 3, 0, 0], [4, 1, 2, 0], [0, 0, 0, 0]]])
"""A repeated word, words of one to four letters, and a position without a word."""


@pytest.mark.parametrize("case", CASES)
def test_a_word_vector_equals_the_paper_in_values_and_gradients(case):
    name, options, reference = CASES[case]
    reader = randomise(CHARACTERS[name](4, num_letters=5, **options))
    assert_agrees(reader, lambda: reader(LETTERS), lambda p: reference(p, LETTERS.numpy()), entries=6)


@pytest.mark.parametrize("case", CASES)
def test_padding_changes_no_word(case):
    name, options, _ = CASES[case]
    reader = randomise(CHARACTERS[name](4, num_letters=5, **options))
    expected = reader(LETTERS)
    longer = F.pad(LETTERS, (0, 7, 0, 2, 0, 1))  # more letters, more words, another row
    actual = reader(longer)
    torch.testing.assert_close(actual[:2, :3], expected)
    assert not actual[1, 2].any() and not actual[:, 3:].any() and not actual[2].any()


@pytest.mark.parametrize("name", CHARACTERS)
def test_no_words_give_no_vectors(name):
    reader = CHARACTERS[name](4)
    assert reader(torch.zeros(2, 0, 0, dtype=torch.long)).shape == (2, 0, 4)
    assert reader(torch.zeros(0, 3, 5, dtype=torch.long)).shape == (0, 3, 4)
    assert not reader(torch.zeros(2, 3, 5, dtype=torch.long)).any()


def test_a_filter_of_width_one_finds_a_letter_at_any_position():
    reader = CharacterCNN(1, num_letters=5, letter_dim=4, widths=[1])
    with torch.no_grad():
        reader.letters.weight.copy_(torch.eye(5)[:, 1:])
        reader.convolutions[0].weight.copy_(torch.tensor([0.0, 0.0, 2.0, 0.0]).view(1, 4, 1))
        reader.convolutions[0].bias.fill_(0.5)
    assert reader(LETTERS).squeeze(-1).tolist() == [[2.5, 0.5, 2.5], [2.5, 0.5, 0.0]]


def test_letters_are_not_dropped_in_evaluation():
    reader = CharacterCNN(6, num_letters=5, dropout=0.5)
    assert not torch.equal(reader(LETTERS), reader(LETTERS))
    reader.eval()
    assert torch.equal(reader(LETTERS), reader(LETTERS))


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        (
            {"name": "cnn", "widths": [3, 4], "filters": [5]},
            "one number of filters per width, all at least 1, and highways from 0 to 100; not widths=",
        ),
        ({"name": "cnn", "widths": []}, "one number of filters per width"),
        ({"name": "cnn", "widths": [0]}, "all at least 1"),
        ({"name": "cnn", "widths": [1, 2, 3, 4, 5, 6]}, "all at least 1"),
        ({"name": "cnn", "widths": 3}, "takes a list of whole numbers or null, not 3"),
        ({"name": "cnn", "activation": "sin"}, "unknown activation 'sin'"),
        ({"name": "cnn", "letter_dim": 0}, "letter_dim (0) must be at least 1"),
        ({"name": "lstm"}, "dim (5) must be even, since each of the two directions has half of it; add 1"),
    ],
)
def test_invalid_settings_are_rejected(part, sentence):
    with pytest.raises(UserError) as error:
        build_part("characters", part, CHARACTERS, 5)
    assert sentence in str(error.value)


def test_filters_are_divided_among_widths():
    assert [c.out_channels for c in CharacterCNN(8, widths=[2, 3, 4]).convolutions] == [3, 3, 2]
    assert np.prod(CharacterCNN(8, widths=[2, 3, 4])(LETTERS).shape) == 2 * 3 * 8
