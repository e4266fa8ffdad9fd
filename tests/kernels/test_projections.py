import copy

import torch
from torch import nn

from clew.kernels.projections import Together
from clew.layers.attention import SelfAttention


def three(bias: bool = True) -> list[nn.Linear]:
    return [nn.Linear(4, dim, bias=bias).double() for dim in (6, 2, 2)]


def side_by_side(layer: SelfAttention, x: torch.Tensor) -> torch.Tensor | None:
    with torch.no_grad():
        return layer.together(x, layer.query, layer.key, layer.value)


def test_one_product_gives_what_three_give():
    x = torch.randn(2, 3, 4, dtype=torch.double)
    for bias in (True, False):
        linears = three(bias)
        apart = torch.cat([linear(x) for linear in linears], -1)
        together = Together(linears)
        with torch.no_grad():
            torch.testing.assert_close(together(x, *linears), apart)


def test_weights_that_were_moved_apart_run_alone():
    linears = three()
    together = Together(linears)
    linears[1].weight = nn.Parameter(linears[1].weight.detach().clone())
    with torch.no_grad():
        assert together(torch.randn(1, 1, 4, dtype=torch.double), *linears) is None


def test_gradients_reach_each_weight_since_training_does_not_take_the_block():
    linears = three()
    assert Together(linears)(torch.randn(1, 1, 4, dtype=torch.double), *linears) is None


def test_loading_training_and_moving_keep_weights_together():
    layer = SelfAttention(8, 2)
    optimiser = torch.optim.SGD(layer.parameters(), lr=0.1)
    layer.load_state_dict(SelfAttention(8, 2).state_dict())
    layer.double()
    layer(torch.randn(1, 3, 8, dtype=torch.double))[0].sum().backward()
    before = layer.key.weight.detach().clone()
    optimiser.step()
    assert not torch.equal(before, layer.key.weight)
    x = torch.randn(1, 1, 8, dtype=torch.double)
    together = side_by_side(layer, x)
    assert together is not None
    torch.testing.assert_close(together, torch.cat([layer.query(x), layer.key(x), layer.value(x)], -1))


def test_a_copy_runs_alone():
    layer = copy.deepcopy(SelfAttention(8, 2))
    assert side_by_side(layer, torch.randn(1, 1, 8)) is None
    layer.double()
    assert side_by_side(layer, torch.randn(1, 1, 8, dtype=torch.double)) is not None
