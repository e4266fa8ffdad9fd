import math

import pytest
import torch

from clew.core.errors import UserError
from clew.layers.attention import SelfAttention
from clew.layers.scores import SCORES, Content, Location
from tests.references import attention as references
from tests.references.agreement import assert_agrees, randn, randomise


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("query_dim", [3, 4])
def test_a_score_equals_its_equation_in_values_and_gradients(name, query_dim):
    score = randomise(SCORES[name](query_dim, 3, **({"max_length": 6} if name == "location" else {})))
    key_positions = torch.arange(5)[None, None]
    reference = references.all_scores(references.SCORES[name])
    assert_agrees(
        score, lambda q, k: score(q, k, key_positions), reference, randn(2, 2, 4, query_dim), randn(2, 2, 5, 3, seed=1)
    )


@pytest.mark.parametrize("beta", [0.5, 7.0])
@pytest.mark.parametrize("learned", [True, False])
def test_a_content_score_is_the_cosine_times_its_sharpness_fused_or_not(beta, learned):
    score = Content(3, 3, sharpness=beta, learned=learned).double()
    query, key = randn(2, 2, 4, 3), randn(2, 2, 5, 3, seed=1)
    cosine = torch.nn.functional.cosine_similarity(query[..., None, :], key[..., None, :, :], dim=-1)
    torch.testing.assert_close(score(query, key, None), beta * cosine)
    torch.testing.assert_close(score.compare(query, score.prepare(key), None), beta * cosine)
    as_query, as_key, scale = score.as_dot(query, key)
    torch.testing.assert_close(scale * as_query @ as_key.mT, beta * cosine)
    assert [name for name, _ in score.named_parameters()] == (["sharpness"] if learned else [])


def test_a_learned_sharpness_equals_its_equation_in_values_and_gradients():
    score = randomise(Content(3, 3, learned=True))
    reference = references.all_scores(references.content)
    assert_agrees(score, lambda q, k: score(q, k, None), reference, randn(2, 2, 4, 3), randn(2, 2, 5, 3, seed=1))


def test_weights_of_the_plain_cosine_differ_by_at_most_a_factor_of_e_squared():
    score = Content(3, 3).double()
    weights = torch.softmax(score(100 * randn(1, 1, 4, 3), 100 * randn(1, 1, 50, 3, seed=1), None), -1)
    assert (weights.amax(-1) / weights.amin(-1)).max() <= math.exp(2)


def test_a_location_score_does_not_depend_on_keys():
    score = randomise(Location(3, 3))
    positions = torch.arange(5)[None, None]
    query = randn(1, 1, 2, 3)
    assert torch.equal(
        score(query, randn(1, 1, 5, 3, seed=1), positions), score(query, randn(1, 1, 5, 3, seed=2), positions)
    )


def test_a_location_score_rejects_places_past_its_last():
    score = Location(2, 2, max_length=4)
    attention = SelfAttention(4, 2, score=score)
    attention(torch.randn(1, 4, 4))
    with pytest.raises(
        UserError,
        match="location scores have 4 positions, but a key has position 5; raise the score's option max_length",
    ):
        attention(torch.randn(1, 5, 4))


def test_a_location_score_counts_places_within_a_document_and_not_slots_of_a_buffer():
    attention = SelfAttention(4, 2, score=Location(2, 2, max_length=4)).double()
    x = randn(1, 8, 4)
    packed, _ = attention(x, torch.tensor([[1] * 4 + [2] * 4]))
    torch.testing.assert_close(packed[:, 4:], attention(x[:, 4:])[0])
    with torch.no_grad():
        buffered, _ = attention(x[:, :4], None, attention.initial_state(1, capacity=4, like=x))
    torch.testing.assert_close(buffered, attention(x[:, :4])[0])
