import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import UserError
from clew.metrics.perplexity import Likelihood, perplexity

likelihoods = st.builds(Likelihood, st.integers(0, 1000), st.integers(1, 1000), st.integers(1, 1000))


def test_a_model_of_two_directions_reports_their_mean():
    parts = [
        Likelihood(2.0, 2, 4, {"forward": 1.0, "backward": 3.0}),
        Likelihood(4.0, 1, 4, {"forward": 5.0, "backward": 3.0}),
    ]
    whole = sum(parts, Likelihood())
    assert whole.losses() == {"forward": 2.0, "backward": 2.0}
    assert whole.describe("word").startswith(
        "loss 2.0000 (2.0000 forward, 2.0000 backward) nats per word, perplexity 7.39 per word"
    )
    assert Likelihood(2.0, 2, 4).losses() == {}


def test_guessing_among_eight_words_has_perplexity_eight():
    paid = Likelihood(nats=5 * math.log(8), tokens=5, characters=15)
    assert paid.loss == pytest.approx(math.log(8))
    assert paid.perplexity == pytest.approx(8)
    assert paid.bits_per_character == pytest.approx(1)


def test_a_line_states_the_unit_of_each_number():
    paid = Likelihood(nats=5 * math.log(8), tokens=5, characters=15)
    assert paid.describe("word") == "loss 2.0794 nats per word, perplexity 8.00 per word, 1.0000 bits per character"


@given(st.lists(likelihoods, min_size=1))
def test_parts_add_up_to_the_whole(shares):
    whole = sum(shares, Likelihood())
    assert whole.nats == sum(share.nats for share in shares)
    assert whole.loss == whole.nats / sum(share.tokens for share in shares)
    assert whole.characters == sum(share.characters for share in shares)


def test_a_subword_model_has_a_perplexity_per_word():
    assert perplexity(nats=6 * math.log(2), count=2) == pytest.approx(8)


def test_a_hopeless_model_has_infinite_perplexity():
    assert perplexity(nats=1e6, count=1) == math.inf


def test_nothing_scored_has_no_mean():
    with pytest.raises(UserError, match="no token was scored, so there is no mean; give a text of at least 2 tokens"):
        _ = Likelihood().perplexity
    with pytest.raises(UserError, match="no character was scored"):
        _ = Likelihood(1.0, 1, 0).bits_per_character
