import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.core.errors import UserError
from clew.inspection.computation_graph import Graph, scalar_paths, trace
from clew.kernels import only_equations
from clew.layers.attention import SelfAttention
from clew.layers.cells import CELLS
from clew.layers.recurrent import Recurrent


def worked(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return (a + b) * torch.maximum(b, c)


@pytest.fixture(scope="module")
def graph() -> Graph:
    return trace(worked, *map(torch.tensor, (1.0, 2.0, 0.0)), names="abc")


def numbered(graph: Graph) -> dict[str, int]:
    return {node.name: number for number, node in enumerate(graph.nodes)}


def test_values_and_gradients_of_the_worked_example(graph: Graph) -> None:
    nodes = {node.name: (node.kind, node.value.item(), node.gradient.item()) for node in graph.nodes}
    assert nodes == {
        "a": ("input", 1, 2),
        "b": ("input", 2, 5),
        "c": ("input", 0, 0),
        "+": ("operation", 3, 2),
        "maximum": ("operation", 2, 3),
        "*": ("output", 6, 1),
    }


def test_the_gradient_is_the_sum_over_paths_of_products_of_derivatives(graph: Graph) -> None:
    at = numbered(graph)
    paths = scalar_paths(graph, at["b"])
    assert [path.nodes for path in paths] == [(at["b"], at["+"], at["*"]), (at["b"], at["maximum"], at["*"])]
    assert [path.product for path in paths] == [2, 3]
    for name, node in zip(at, graph.nodes, strict=True):
        assert sum(path.product for path in scalar_paths(graph, at[name])) == node.gradient.item()


def test_gradients_come_in_reverse_topological_order(graph: Graph) -> None:
    order = graph.backward()
    assert order[0] == len(graph.nodes) - 1
    for edge in graph.edges:
        assert order.index(edge.target) < order.index(edge.source)


def test_paths_that_cancel_are_both_listed() -> None:
    """f = (x - x) * y: the gradient at the difference is y, and at x it is y - y."""
    traced = trace(lambda x, y: (x - x) * y, torch.tensor(3.0), torch.tensor(7.0), names="xy")
    assert sorted(path.product for path in scalar_paths(traced, 0)) == [-7, 7]
    traced = trace(lambda x, y: (x - y) * 0 * x, torch.tensor(3.0), torch.tensor(7.0), names="xy")
    assert sorted(path.product for path in scalar_paths(traced, 0)) == [0, 0]


def test_a_value_read_twice_by_one_operation_has_two_edges() -> None:
    traced = trace(lambda x: x * x, torch.tensor(3.0), names="x")
    assert [path.product for path in scalar_paths(traced, 0)] == [3, 3]
    assert traced.nodes[0].gradient.item() == 6


@pytest.mark.parametrize("name", CELLS)
def test_gradients_of_a_recurrence_equal_autograd(name: str) -> None:
    torch.manual_seed(0)
    layer = Recurrent(CELLS[name](2, 3))
    x = torch.randn(1, 3, 2, requires_grad=True)
    with only_equations():
        traced = trace(layer, x, names=["x"])
        layer(x)[0].sum().backward()
    at = numbered(traced)
    torch.testing.assert_close(traced.nodes[at["x"]].gradient, x.grad)
    for path, parameter in layer.named_parameters():
        torch.testing.assert_close(traced.nodes[at[path]].gradient, parameter.grad)
        assert traced.nodes[at[path]].kind == "parameter"


def test_gradients_of_attention_equal_autograd_and_sum_over_edges() -> None:
    torch.manual_seed(0)
    layer = SelfAttention(4, 2)
    x = torch.randn(1, 3, 4, requires_grad=True)
    with only_equations():
        traced = trace(layer, x, names=["x"])
        layer(x)[0].sum().backward()
    at = numbered(traced)
    torch.testing.assert_close(traced.nodes[at["key.weight"]].gradient, layer.key.weight.grad)
    by_edges = [edge.gradient for edge in traced.out_of(at["x"])]
    assert len(by_edges) == 3  # query, key, value
    torch.testing.assert_close(sum(by_edges), x.grad)


def test_in_place_writes_and_random_operations_are_traced() -> None:
    def function(x: Tensor) -> Tensor:
        y = x * 1
        y[0] = 0.0
        y.add_(x)
        return F.dropout(y, 0.5, True).sum()

    torch.manual_seed(0)
    x = torch.arange(1.0, 9.0, requires_grad=True)
    before = torch.get_rng_state()
    traced = trace(function, x, names=["x"])
    torch.set_rng_state(before)
    function(x).backward()
    torch.testing.assert_close(traced.nodes[0].gradient, x.grad)


class Hidden(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return torch.from_numpy(2 * x.detach().numpy())

    @staticmethod
    def backward(context, gradient):
        return 2 * gradient


def test_a_graph_with_too_many_nodes_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew.inspection.computation_graph.MOST_NODES", 4)
    with pytest.raises(UserError, match="the graph has more than 4 nodes; use a smaller input, or a part of the model"):
        trace(doubled, torch.tensor(1.0))


def test_incomplete_graphs_are_rejected() -> None:
    with pytest.raises(
        UserError, match="a part of the function between x1 and the output is not made of torch's operations"
    ):
        trace(lambda x: Hidden.apply(x) + x, torch.ones(2))
    with pytest.raises(
        UserError,
        match="the function returns no tensor, so there is nothing to differentiate; return one made from the inputs",
    ):
        trace(lambda x: None, torch.ones(2))
    with pytest.raises(
        UserError,
        match="does not depend on the inputs through torch operations; compute it from them by torch functions",
    ):
        trace(lambda x: torch.ones(()), torch.ones(2))
    with pytest.raises(UserError, match="paths need every node to be a scalar; give the function single numbers"):
        scalar_paths(trace(nn.Linear(2, 2), torch.ones(1, 2)), 0)
    with pytest.raises(UserError, match="there are more than 10 paths; use a smaller function"):
        scalar_paths(trace(doubled, torch.tensor(1.0)), 0, most=10)


def doubled(x: Tensor) -> Tensor:
    for _ in range(5):
        x = x + x
    return x
