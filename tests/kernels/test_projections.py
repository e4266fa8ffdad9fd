import numpy as np
import torch
from torch import nn

from clew.kernels.projections import lay_together, project_together
from clew.layers.attention import SelfAttention


def three(bias: bool = True) -> list[nn.Linear]:
    return [nn.Linear(4, dim, bias=bias).double() for dim in (6, 2, 2)]


def test_one_product_gives_what_three_give():
    x = torch.randn(2, 3, 4, dtype=torch.double)
    for bias in (True, False):
        linears = three(bias)
        apart = torch.cat([linear(x) for linear in linears], -1)
        lay_together(linears)
        with torch.no_grad():
            torch.testing.assert_close(project_together(x, *linears), apart)


def test_weights_that_lie_apart_are_left_to_run_alone():
    with torch.no_grad():
        assert project_together(torch.randn(1, 1, 4, dtype=torch.double), *three()) is None


def test_gradients_reach_each_weight_since_training_does_not_take_the_view():
    linears = three()
    lay_together(linears)
    assert project_together(torch.randn(1, 1, 4, dtype=torch.double), *linears) is None


def test_loading_and_training_keep_weights_together():
    layer = SelfAttention(8, 2)
    layer.load_state_dict(SelfAttention(8, 2).state_dict())
    layer(torch.randn(1, 3, 8))[0].sum().backward()
    torch.optim.SGD(layer.parameters(), lr=0.1).step()
    x = torch.randn(1, 1, 8)
    with torch.no_grad():
        together = project_together(x, layer.query, layer.key, layer.value)
    assert together is not None
    torch.testing.assert_close(together, torch.cat([layer.query(x), layer.key(x), layer.value(x)], -1))


def test_blocks_of_their_own_that_lie_side_by_side_are_not_one_block():
    memory = np.zeros(40, dtype=np.float64)
    linears = [nn.Linear(4, dim, bias=False) for dim in (6, 2, 2)]
    for linear, start, stop in zip(linears, (0, 24, 32), (24, 32, 40), strict=True):
        linear.weight = nn.Parameter(torch.from_numpy(memory[start:stop].reshape(-1, 4)))
    with torch.no_grad():
        assert project_together(torch.randn(1, 1, 4, dtype=torch.double), *linears) is None
