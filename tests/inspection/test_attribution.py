"""Attributions against an independent float64 reference, and against cases computed by hand."""

import numpy as np
import pytest
import torch

from clew.inspection.attribution import input_x_gradient, integrated_gradients, occlusion
from tests.references import attribution as reference

RANDOM = np.random.default_rng(0)
PLACES, DIM, HIDDEN = 5, 3, 4
NETWORK = (RANDOM.normal(size=(PLACES, HIDDEN, DIM)), RANDOM.normal(size=HIDDEN), RANDOM.normal(size=HIDDEN))
X, BASELINE = RANDOM.normal(size=(2, PLACES, DIM))


def network_score(rows: torch.Tensor) -> torch.Tensor:
    weights, bias, output = map(torch.from_numpy, NETWORK)
    return torch.tanh(torch.einsum("phd,rpd->rh", weights, rows) + bias) @ output


def test_attributions_of_a_network_equal_the_reference():
    x, baseline = torch.from_numpy(X), torch.from_numpy(BASELINE)
    result = input_x_gradient(network_score, x)
    np.testing.assert_allclose(result.values, reference.input_x_gradient(X, *NETWORK), rtol=1e-10)
    assert result.score == pytest.approx(reference.score(X, *NETWORK)) and result.gap is None
    for steps in (1, 7, 40):
        result = integrated_gradients(network_score, x, baseline, steps)
        np.testing.assert_allclose(
            result.values, reference.integrated_gradients(X, BASELINE, steps, *NETWORK), rtol=1e-10
        )
        assert result.baseline == pytest.approx(reference.score(BASELINE, *NETWORK))
    result = occlusion(network_score, x, baseline)
    np.testing.assert_allclose(result.values, reference.occlusion(X, BASELINE, *NETWORK), rtol=1e-10)


def test_the_gap_of_integrated_gradients_falls_with_the_square_of_steps():
    x, baseline = torch.from_numpy(X), torch.from_numpy(BASELINE)
    gaps = [abs(integrated_gradients(network_score, x, baseline, steps).gap or 0.0) for steps in (50, 100, 200)]
    assert gaps[0] < 1e-2
    assert gaps[0] / gaps[1] == pytest.approx(4, rel=0.1) and gaps[1] / gaps[2] == pytest.approx(4, rel=0.1)


def test_a_linear_score_is_attributed_exactly_by_all_methods():
    weights = torch.from_numpy(RANDOM.normal(size=(PLACES, DIM)))
    x = torch.from_numpy(X)
    expected = (weights * x).sum(-1)
    for result in (
        input_x_gradient(lambda rows: (rows * weights).sum((1, 2)), x),
        integrated_gradients(lambda rows: (rows * weights).sum((1, 2)), x, torch.zeros_like(x), 1),
        occlusion(lambda rows: (rows * weights).sum((1, 2)), x, torch.zeros_like(x)),
    ):
        torch.testing.assert_close(result.values, expected)


def test_attributions_of_powers_equal_hand_computed_ones():
    """x^2 from 0: the gradient is 2x, so x times the gradient is twice the score, and the integral equals the score for
    any number of steps. x^3: the midpoint rule with m steps gives x^3 (1 - 1 / (4 m^2))."""
    x, zero = torch.tensor([[3.0]], dtype=torch.float64), torch.zeros(1, 1, dtype=torch.float64)
    assert input_x_gradient(lambda rows: (rows**2).sum((1, 2)), x).values.item() == pytest.approx(18)
    for steps in (1, 2, 20):
        result = integrated_gradients(lambda rows: (rows**2).sum((1, 2)), x, zero, steps)
        assert result.values.item() == pytest.approx(9) and result.gap == pytest.approx(0, abs=1e-12)
        cubed = integrated_gradients(lambda rows: (rows**3).sum((1, 2)), x, zero, steps)
        assert cubed.gap == pytest.approx(-27 / (4 * steps**2))


def test_a_product_is_shared_by_integration_and_counted_twice_by_occlusion():
    """f = x y from (0, 0) to (2, 3): each gets half of 6; without either, f is 0."""

    def product(rows: torch.Tensor) -> torch.Tensor:
        return rows[:, 0, 0] * rows[:, 1, 0]

    x = torch.tensor([[2.0], [3.0]], dtype=torch.float64)
    assert integrated_gradients(product, x, torch.zeros_like(x), 3).values.tolist() == pytest.approx([3, 3])
    assert occlusion(product, x, torch.zeros_like(x)).values.tolist() == pytest.approx([6, 6])
