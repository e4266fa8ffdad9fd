import pytest
import torch

from clew.core.errors import UserError
from clew.layers.cells import Elman
from clew.layers.pooling import POOLINGS, Last, LayerMix
from clew.layers.recurrent import Bidirectional, Recurrent
from tests.references import parts
from tests.references.agreement import assert_agrees, randn, randomise

LENGTHS = [4, 1, 3]


@pytest.mark.parametrize("name", POOLINGS)
@pytest.mark.parametrize("padded", [False, True])
def test_a_pooling_equals_its_equation_in_values_and_gradients(name, padded):
    pooling = randomise(POOLINGS[name](3))
    mask = torch.arange(4) < torch.tensor(LENGTHS)[:, None] if padded else None
    lengths = LENGTHS if padded else [4] * 3

    def reference(p, hidden):
        return parts.pooled(name, p, [row[:n] for row, n in zip(hidden, lengths, strict=True)])

    assert_agrees(pooling, lambda hidden: pooling(hidden, mask), reference, randn(3, 4, 3))


@pytest.mark.parametrize("name", ["last", "mean", "max", "attention"])
def test_a_row_without_a_real_position_pools_to_zero(name):
    pooled = POOLINGS[name](3).double()(randn(2, 4, 3), torch.tensor([[True] * 4, [False] * 4]))
    assert torch.equal(pooled[1], torch.zeros(3, dtype=torch.float64))
    assert bool((pooled[0] != 0).all())


def test_last_pooling_takes_each_half_where_its_reader_ends():
    layer = Bidirectional(Recurrent(randomise(Elman(2, 3))), Recurrent(randomise(Elman(2, 3), 1)))
    mask = torch.arange(4) < torch.tensor(LENGTHS)[:, None]
    y, (ahead, back) = layer(randn(3, 4, 2), mask)
    torch.testing.assert_close(Last(6, halves=True)(y, mask), torch.cat([ahead.cell, back.cell], -1))


def test_a_layer_mix_equals_its_equation_in_values_and_gradients():
    mix = randomise(LayerMix(3))
    levels = [randn(2, 3, 4, seed=seed) for seed in range(3)]
    assert_agrees(mix, lambda *levels_given: mix(levels_given), parts.layer_mix, *levels)


def test_a_new_layer_mix_is_the_mean():
    levels = [randn(2, 3, 4, seed=seed) for seed in range(3)]
    torch.testing.assert_close(LayerMix(3).double()(levels), sum(levels) / 3)


def test_a_layer_mix_refuses_another_number_of_levels():
    with pytest.raises(UserError, match="this mix takes 3 levels, not 2"):
        LayerMix(3)([randn(1, 1, 1)] * 2)
