import copy

import pytest
import torch

from clew.core.errors import UserError
from clew.core.masks import Places
from clew.layers.embeddings import Segmented, TokenEmbedding
from clew.layers.positions import Learned
from tests.references.agreement import randomise

TOKENS = torch.tensor([[1, 0, 1], [2, 2, 1]])
PLACES = Places(torch.arange(3)[None], torch.zeros_like(torch.arange(3)[None]))


def test_a_words_vector_is_its_row_plus_its_position_plus_its_segment():
    embedding = randomise(TokenEmbedding(3, 4, position=Learned(4, 1, 4, max_length=3), num_segments=2, scaled=True))
    segments = torch.tensor([[0, 0, 1], [0, 1, 1]])
    x = embedding(Segmented(TOKENS, segments), PLACES)
    for row in range(2):
        for t in range(3):
            word = 2.0 * embedding.weight[TOKENS[row, t]]  # sqrt(4)
            torch.testing.assert_close(
                x[row, t], word + embedding.position.weight[t] + embedding.segments.weight[segments[row, t]]
            )


def test_a_dropped_word_is_dropped_at_all_its_occurrences():
    torch.manual_seed(0)
    embedding = TokenEmbedding(40, 4, word_dropout=0.5)
    tokens = torch.arange(40).repeat(2, 3)
    x = embedding(tokens, Places(torch.arange(120)[None], torch.zeros(1, 120, dtype=torch.long)))
    is_zero = (x == 0).all(-1)
    assert torch.equal(is_zero, is_zero[:1, :40].repeat(2, 3))
    assert 5 < int(is_zero[0, :40].sum()) < 35


def test_a_shared_table_is_one_parameter_that_follows_its_owner():
    owner = TokenEmbedding(3, 4)
    reader = TokenEmbedding(3, 4, scaled=True, table=owner.tokens)
    modules = torch.nn.ModuleList([owner, reader])
    assert list(modules.state_dict()) == ["0.tokens.weight"] and len(list(modules.parameters())) == 1
    modules = copy.deepcopy(modules).double()
    assert modules[1].weight is modules[0].weight is not owner.weight
    torch.testing.assert_close(modules[1](TOKENS, PLACES), 2 * modules[0](TOKENS, PLACES))


def test_invalid_settings_are_rejected_with_a_sentence():
    with pytest.raises(UserError, match=r"vocabulary \(0\) must be at least 1"):
        TokenEmbedding(0, 4)
    with pytest.raises(UserError, match="this embedding has no segments; build it with num_segments"):
        TokenEmbedding(3, 4)(Segmented(TOKENS, TOKENS), PLACES)
