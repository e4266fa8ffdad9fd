import numpy as np
import pytest
import torch

from clew.core.errors import UserError
from clew.layers.attention import Attention, SelfAttention
from clew.layers.positions import (
    POSITIONS,
    ALiBi,
    Learned,
    Position,
    Relative,
    Rotary,
    Sinusoidal,
    frequencies,
    kept_frequencies,
    sinusoids,
)
from clew.layers.scores import Dot
from tests.references import attention as references
from tests.references.agreement import assert_agrees, randn, randomise

FLOAT32 = 2e-6
"""Angles are computed in float32."""


@pytest.mark.parametrize("dim", [6, 7])
def test_sinusoids_equal_the_paper(dim):
    position = Sinusoidal(dim, 1, dim)
    table = np.array([references.sinusoid(i, dim) for i in range(40)])
    x = torch.zeros(1, 40, dim, dtype=torch.float64)
    np.testing.assert_allclose(position.embed(x, torch.arange(40)[None])[0], table, atol=1e-5)


def test_the_product_of_two_sinusoids_depends_on_their_distance():
    waves = sinusoids(torch.arange(64), 32).double()
    products = waves @ waves.T
    for distance in (1, 5, 20):
        torch.testing.assert_close(
            products.diagonal(distance), products[0, distance].expand(64 - distance), atol=1e-4, rtol=1e-4
        )


def test_frequencies_cached_in_inference_mode_can_be_used_in_training():
    cpu = torch.device("cpu")
    with torch.inference_mode():
        kept = kept_frequencies(7, 50.0, cpu)
    assert not kept.is_inference()
    assert torch.equal(kept, frequencies(7, 50.0, cpu))
    assert kept_frequencies(7, 50.0, cpu) is kept


def test_rotary_equals_a_rotation_of_complex_numbers():
    position = Rotary(8, 1, 6)
    x = randn(2, 3, 5, 6)
    positions = torch.tensor([[0, 1, 2, 3, 4], [7, 8, 0, 1, 2]])
    expected = np.zeros(x.shape)
    for b, h, t in np.ndindex(2, 3, 5):
        expected[b, h, t] = references.rotated(x[b, h, t].numpy(), int(positions[b, t]))
    np.testing.assert_allclose(position.rotate(x, positions), expected, atol=FLOAT32)


def test_rotary_preserves_norms():
    x = randn(1, 1, 9, 8)
    torch.testing.assert_close(
        Rotary(8, 1, 8).rotate(x, torch.arange(9)[None]).norm(dim=-1), x.norm(dim=-1), atol=1e-6, rtol=1e-6
    )


@pytest.mark.parametrize("num_heads", [1, 2, 3, 4, 5, 6, 7, 8, 12, 20, 24, 40])
def test_alibi_slopes_decrease_as_published(num_heads):
    scores = (
        ALiBi(8, num_heads, 4).double().scores(randn(1, num_heads, 3, 4), torch.arange(3)[None], torch.arange(3)[None])
    )
    for h, i, j in np.ndindex(num_heads, 3, 3):
        assert float(scores[0, h, i, j]) == pytest.approx(-references.slope(h, num_heads) * abs(i - j))


def test_twelve_heads_of_alibi_have_the_eight_slopes_of_eight_and_four_between_them():
    """Press et al.'s code: the slopes of 8 heads, then every other one of 16."""
    slopes = ALiBi(12, 12, 1).slopes.double().tolist()
    assert slopes == pytest.approx([*(2.0**-k for k in range(1, 9)), 2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5])


@pytest.mark.parametrize("num_heads", [3, 6, 8, 12])
def test_geometric_slopes_of_alibi_have_one_ratio_for_any_number_of_heads(num_heads):
    slopes = ALiBi(12, num_heads, 1, slopes="geometric").slopes
    torch.testing.assert_close(slopes[1:] / slopes[:-1], torch.full((num_heads - 1,), 2 ** (-8 / num_heads)))
    assert torch.equal(slopes, ALiBi(12, num_heads, 1).slopes) == (num_heads == 8)
    with pytest.raises(
        UserError, match="unknown slopes 'geometrc'; did you mean 'geometric'[?] known: geometric, published"
    ):
        ALiBi(12, num_heads, 1, slopes="geometrc")


def test_attention_of_three_heads_with_alibi_equals_its_equation_in_values_and_gradients():
    layer = randomise(SelfAttention(6, 3, head_dim=4, position=ALiBi(6, 3, 4)))
    assert_agrees(
        layer, lambda x: layer(x)[0], lambda p, x: references.multi_head(p, x, 3, position="alibi"), randn(1, 5, 6)
    )


@pytest.mark.parametrize("name", ["rotary", "alibi", "relative"])
@pytest.mark.parametrize("causal", [True, False])
def test_attention_with_positions_equals_its_equation_in_values_and_gradients(name, causal):
    position = POSITIONS[name](6, 2, 4) if name != "relative" else Relative(6, 2, 4, max_distance=2)
    layer = randomise(SelfAttention(6, 2, head_dim=4, causal=causal, position=position))
    assert_agrees(
        layer,
        lambda x: layer(x)[0],
        lambda p, x: references.multi_head(p, x, 2, causal=causal, position=name),
        randn(1, 5, 6),
        near=1e-5 if name == "rotary" else 1e-9,
        entries=2,
    )


def test_learnt_positions_add_their_row():
    position = randomise(Learned(3, 1, 3, max_length=5))
    x = randn(2, 2, 3)
    positions = torch.tensor([[0, 4], [2, 2]])
    torch.testing.assert_close(position.embed(x, positions) - x, position.weight[positions])


def test_learnt_positions_refuse_one_past_their_last():
    position = Learned(3, 1, 3, max_length=5)
    with pytest.raises(
        UserError,
        match="the sequence reaches position 6, but the model has learnt 5 positions; shorten it, or train with",
    ):
        position.embed(torch.zeros(1, 6, 3), torch.arange(6)[None])


def test_rotary_refuses_an_odd_width():
    with pytest.raises(UserError, match=r"rotary positions rotate pairs of features, so head_dim \(3\) must be even"):
        Rotary(6, 2, 3)


def test_relative_positions_beyond_the_furthest_are_clipped():
    position = randomise(Relative(4, 1, 4, max_distance=2))
    query = randn(1, 1, 1, 4)
    scores = position.scores(query, torch.tensor([[0]]), torch.tensor([[2, 3, 50]]))
    torch.testing.assert_close(scores[0, 0, 0], scores[0, 0, 0, :1].expand(3))


def test_without_positions_nothing_changes():
    position = Position(4, 1, 4)
    x = randn(2, 3, 4)
    assert position.embed(x, torch.arange(3)[None]) is x
    assert position.rotate(x, torch.arange(3)[None]) is x
    assert Attention(Dot(4, 4), position).kernel == "dot_attention"
