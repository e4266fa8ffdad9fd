"""Depth under four wirings."""

import pytest
import torch

from clew.layers.feedforward import Linear, Readout
from clew.layers.wiring import Residual
from clew.tour.depth import SHOWN, build_deep, condition_of, deep_layers, dense_growth, jacobian, run
from clew.tour.training import parameters_of


def test_the_jacobian_of_a_linear_layer_is_its_matrix_and_a_residual_adds_the_identity() -> None:
    torch.manual_seed(0)
    layer, x = Linear(3, 3), torch.randn(3)
    torch.testing.assert_close(jacobian([layer], x), layer.linear.weight.detach())
    torch.testing.assert_close(jacobian([Residual(3, layer)], x), layer.linear.weight.detach() + torch.eye(3))


def test_the_jacobian_of_two_layers_is_the_product_of_their_jacobians() -> None:
    torch.manual_seed(1)
    first, second, x = Readout(4, 3), Readout(3, 2), torch.randn(4)
    y, _ = first(x[None, None])
    torch.testing.assert_close(
        jacobian([first, second], x), jacobian([second], y[0, 0].detach()) @ jacobian([first], x)
    )


@pytest.mark.parametrize("number", [2, 8, 32])
def test_dense_layers_have_about_the_parameters_of_plain_ones(number: int) -> None:
    plain, dense = (
        sum(map(parameters_of, deep_layers(build_deep(wiring, number, 64, 5)))) for wiring in ("plain", "dense")
    )
    assert dense == pytest.approx(plain, rel=0.08)
    assert dense_growth(1, 64) == 64


def test_deep_plain_layers_are_worse_conditioned_than_any_with_shortcuts() -> None:
    tokens = torch.randint(5, (3, 8), generator=torch.Generator().manual_seed(0))
    conditions = []
    for wiring in SHOWN:
        torch.manual_seed(0)
        conditions.append(condition_of(build_deep(wiring, 12, 8, 5), tokens))
    assert conditions[0] > 100 * max(conditions[1:])


def test_a_quick_run_has_a_row_per_wiring_and_plain_gradients_fade() -> None:
    finding = run("quick", 0, lambda line: None)
    assert [what.rsplit(", ", 1)[1] for what, _, _ in finding.rows[:-1]] == list(SHOWN)
    plain, residual = map(float, finding.rows[-1][2].split(" and "))
    assert plain < 0.1 * residual
