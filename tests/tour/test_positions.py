"""Pictures of position encodings."""

import numpy as np
import pytest
import torch

from clew.layers.positions import sinusoids
from clew.tour.positions import HEADS, alibi_biases, by_distance, relations_of, rotary_products, run


def test_products_of_sinusoids_are_a_sum_of_cosines_of_the_distance() -> None:
    waves = sinusoids(torch.arange(20), 8).double()
    frequencies = [10000 ** (-2 * k / 8) for k in range(4)]
    expected = [sum(np.cos(distance * each) for each in frequencies) for distance in range(20)]
    means, spreads = zip(*by_distance(waves @ waves.mT), strict=True)
    assert means == pytest.approx(expected, abs=1e-5)
    assert max(spreads) < 1e-5


def test_sinusoids_are_a_linear_map_of_their_neighbours_and_random_vectors_are_not() -> None:
    random = torch.randn(40, 16, generator=torch.Generator().manual_seed(0))
    assert relations_of(sinusoids(torch.arange(40), 16)).unmapped < 1e-5
    assert relations_of(random).unmapped > 0.1
    assert relations_of(random).within > 0.1


def test_products_of_rotated_vectors_depend_only_on_distance() -> None:
    means, spreads = zip(*by_distance(rotary_products(12)), strict=True)
    assert max(spreads) < 1e-5
    assert means[0] == pytest.approx(1)


def test_an_alibi_head_subtracts_more_for_more_distant_keys() -> None:
    biases = alibi_biases(6)
    expected = [[-(2.0 ** (-8 * head / HEADS)) * distance for distance in range(6)] for head in range(1, HEADS + 1)]
    torch.testing.assert_close(biases, torch.tensor(expected))


@pytest.mark.slow
def test_the_findings_rows_equal_its_facts() -> None:
    finding = run("quick", 0, lambda line: None)
    assert finding.rows[0][2] == f"{finding.view.facts['sinusoidal']['unmapped']:.0e}"
    assert finding.view.facts["sinusoidal"]["within"] < 1e-5
