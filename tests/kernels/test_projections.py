import copy

import pytest
import torch
from functorch.compile import make_boxed_func
from torch import nn
from torch._dynamo.backends.common import aot_autograd

from clew.kernels import only_equations
from clew.kernels.projections import Together
from clew.layers.attention import SelfAttention


def three(bias: bool = True) -> list[nn.Linear]:
    return [nn.Linear(4, dim, bias=bias).double() for dim in (6, 2, 2)]


def joined_layer(layer: SelfAttention, x: torch.Tensor) -> torch.Tensor | None:
    with torch.no_grad():
        return layer.together(x, layer.query, layer.key, layer.value)


def test_one_product_equals_three():
    x = torch.randn(2, 3, 4, dtype=torch.double)
    for bias in (True, False):
        linears = three(bias)
        apart = torch.cat([linear(x) for linear in linears], -1)
        together = Together(linears)
        with torch.no_grad():
            torch.testing.assert_close(together(x, *linears), apart)


def test_separated_weights_run_separately():
    linears = three()
    together = Together(linears)
    linears[1].weight = nn.Parameter(linears[1].weight.detach().clone())
    with torch.no_grad():
        assert together(torch.randn(1, 1, 4, dtype=torch.double), *linears) is None


@pytest.mark.parametrize("bias", [False, True])
def test_gradients_reach_each_weight(bias):
    linears, x = three(bias), torch.randn(2, 3, 4, dtype=torch.double, requires_grad=True)
    together = Together(linears)
    inputs = [x, *(parameter for linear in linears for parameter in linear.parameters())]

    def gradients(y):
        return torch.autograd.grad(y.pow(3).sum(), inputs)

    torch.testing.assert_close(
        gradients(together(x, *linears)), gradients(torch.cat([linear(x) for linear in linears], -1))
    )


def test_the_equation_has_three_products():
    linears = three()
    together = Together(linears)
    with only_equations():
        assert together(torch.randn(1, 1, 4, dtype=torch.double), *linears) is None


def test_a_projection_with_a_hook_runs_separately():
    layer, calls = SelfAttention(8, 2), []
    layer.key.register_forward_hook(lambda module, inputs, output: calls.append(output.shape))
    layer(torch.randn(1, 3, 8))
    with torch.no_grad():
        layer(torch.randn(1, 3, 8))
    assert calls == [(1, 3, 8)] * 2


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
    together = joined_layer(layer, x)
    assert together is not None
    torch.testing.assert_close(together, torch.cat([layer.query(x), layer.key(x), layer.value(x)], -1))


def test_a_copy_runs_separately():
    layer = copy.deepcopy(SelfAttention(8, 2))
    assert joined_layer(layer, torch.randn(1, 1, 8)) is None
    layer.double()
    assert joined_layer(layer, torch.randn(1, 1, 8, dtype=torch.double)) is not None


def compiled(layer: SelfAttention, products: list[str]) -> nn.Module:
    """The compiled layer; `products` gets the names of the products in its forward graph."""
    torch._dynamo.reset()

    def seeing(graph, _):
        names = [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]
        products.extend(name for name in names if name.startswith(("aten.mm", "aten.addmm")))
        return make_boxed_func(graph.forward)

    backend = aot_autograd(fw_compiler=seeing, bw_compiler=lambda graph, _: make_boxed_func(graph.forward))
    return torch.compile(layer, backend=backend, fullgraph=True)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_compiled_training_has_one_product_with_the_gradients_of_three(bias, dtype):
    layer, products = SelfAttention(16, 4, num_kv_heads=2, bias=bias), []
    x = torch.randn(2, 5, 16, requires_grad=True)

    def run(called):
        with torch.autocast("cpu", dtype or torch.bfloat16, enabled=dtype is not None):
            y = called(x)[0]
        return [y.detach(), *torch.autograd.grad(y.float().square().sum(), [x, *layer.parameters()])]

    torch.testing.assert_close(
        run(compiled(layer, products)), run(layer), rtol=1e-5 if dtype is None else 2e-2, atol=1e-2 if dtype else 1e-5
    )
    assert len(products) == 2, "one for queries, keys and values, and one for the output"


def test_compiled_inference_reads_every_weight_in_place():
    layer, products = SelfAttention(16, 4), []
    with torch.no_grad():
        compiled(layer, products)(torch.randn(2, 5, 16))
    assert len(products) == 4


def test_compiled_an_adapter_runs_separately():
    layer, products = SelfAttention(16, 4), []

    class Adapted(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    adapted = Adapted(16, 16)
    adapted.load_state_dict(layer.key.state_dict())
    layer.key = adapted
    x = torch.randn(2, 5, 16)
    torch.testing.assert_close(compiled(layer, products)(x)[0], layer(x)[0])
    assert len(products) == 4
