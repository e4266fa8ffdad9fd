"""Laws of layers that read graphs: `(x (batch, nodes, input_dim), graphs) -> (hidden (batch, nodes, dim), ...)`.

A layer has `num_types`, the number of edge types that it distinguishes, and `reach`, the number of edges over which a
node sees others. A reach of None, the default, is unlimited: in graphs without cycles, a node sees all nodes that lead
to it.
"""

from typing import Any

import torch
from torch import Tensor, nn

from clew.core.graph_batches import GraphBatch, batch_graphs
from clew.core.graphs import Edge, Graph, reversed_graph
from clew.laws.cases import Build, Case, Law, Sizes
from clew.laws.sequences import check_output


def graph_contract(build: Build, sizes: Sizes) -> None:
    """A graph layer returns a tuple whose first item is a vector (batch, nodes, dim) per node, of its input's type."""
    case = Case("contract", build, sizes)
    graphs = [draw_graph(case, sizes.length) for _ in range(sizes.batch)]
    result = case.module(draw_nodes(case, sizes.batch), batch_graphs(graphs))
    if not isinstance(result, tuple):
        case.fail(f"a graph layer must return (hidden, ...), not a {type(result).__name__}")
    check_output(case, result[0], (sizes.batch, sizes.length, sizes.dim))


def graphs_alone(build: Build, sizes: Sizes) -> None:
    """A graph has the same values and gradients alone and in a batch: neither padding nor other graphs matter."""
    case = Case("graphs alone", build, sizes)
    case.module.eval()
    graphs = [draw_graph(case, case.randint(1, sizes.length)) for _ in range(sizes.batch)]
    x = draw_nodes(case, sizes.batch, max(graph.num_nodes for graph in graphs)).requires_grad_()
    together = hidden_of(case, x, graphs)
    for row, graph in enumerate(graphs):
        n = graph.num_nodes
        alone = hidden_of(case, x[row : row + 1, :n], [graph])[0]
        case.same(f"the graph of row {row}, of {n} nodes, alone", alone, together[row, :n], axes=("node", "feature"))
        weights = [case.randn(n, sizes.dim)]
        expected, actual = (case.gradients([hidden], weights, x) for hidden in (alone, together[row, :n]))
        case.same_gradients(f"the graph of row {row} alone", expected, actual)


def renamed_nodes(build: Build, sizes: Sizes) -> None:
    """The numbering of nodes and the order of edges do not matter: renumbered nodes have the same vectors."""
    case = Case("renamed nodes", build, sizes)
    case.module.eval()
    graph, x = draw_graph(case, sizes.length), draw_nodes(case, 1)
    new = torch.randperm(sizes.length, generator=case.generator)
    old = new.argsort().tolist()
    edges = [(int(new[source]), int(new[target]), type) for source, target, type in reversed(graph.edges)]
    renumbered = hidden_of(case, x[:, old], [Graph(sizes.length, tuple(edges))])
    case.same(
        "the vectors of a graph with renumbered nodes",
        hidden_of(case, x, [graph])[:, old],
        renumbered,
        axes=("row", "node", "feature"),
    )


def what_a_node_sees(build: Build, sizes: Sizes) -> None:
    """A node's vector depends on exactly its own input and those of the nodes that lead to it within the layer's
    reach."""
    for seed in range(sizes.seed, sizes.seed + 4):  # one small rectified layer may be dead, but not all four
        case = Case("what a node sees", build, sizes._replace(seed=seed))
        case.module.eval()
        graph = draw_graph(case, sizes.length)
        x = draw_nodes(case, 1).requires_grad_()
        hidden = hidden_of(case, x, [graph])[0]
        silent = False
        for node, visible in enumerate(seen_by(case.module, graph)):
            (gradient,) = torch.autograd.grad(hidden[node].sum(), x, retain_graph=True)
            for other, felt in enumerate((gradient[0] != 0).any(1).tolist()):
                if felt and other not in visible:
                    case.fail(
                        f"the vector of node {node} depends on the input of node {other}, which does not lead to it"
                        " within its reach"
                    )
                silent = silent or (other in visible and not felt)
        if not silent:
            return
    case.fail(
        "a node's vector does not depend on the inputs of all nodes within its reach; a step must use its neighbours'"
        " states"
    )


def seen_by(layer: Any, graph: Graph) -> list[set[int]]:
    """Return the nodes that each node sees: along the edges, and also against them if the layer reads both ways."""
    reach = getattr(layer, "reach", None)
    ways = [graph, reversed_graph(graph)] if getattr(layer, "both_ways", False) else [graph]
    return [set().union(*each) for each in zip(*(seen_along(way, reach) for way in ways), strict=True)]


def seen_along(graph: Graph, reach: int | None) -> list[set[int]]:
    visible = [{node} for node in range(graph.num_nodes)]
    for _ in range(graph.num_nodes if reach is None else reach):
        before = [set(each) for each in visible]
        for source, target, _ in graph.edges:
            visible[target] |= before[source]
    return visible


def hidden_of(case: Case, x: Tensor, graphs: list[Graph]) -> Tensor:
    return case.module(x, batch_graphs(graphs))[0]


def draw_nodes(case: Case, batch: int, num_nodes: int | None = None) -> Tensor:
    return case.randn(batch, case.sizes.length if num_nodes is None else num_nodes, case.sizes.input_dim)


def draw_graph(case: Case, num_nodes: int) -> Graph:
    """Return a random graph. Each node has one or two incoming edges: from any node if the layer's reach is bounded;
    otherwise only from nodes with lower numbers, so that there is no cycle."""
    num_types = getattr(case.module, "num_types", 1)
    is_free = getattr(case.module, "reach", None) is not None
    edges: list[Edge] = []
    for target in range(num_nodes):
        highest = num_nodes - 1 if is_free else target - 1
        for _ in range(case.randint(1, 2) if highest >= 0 else 0):
            edges.append((case.randint(0, highest), target, case.randint(0, num_types - 1)))
    return Graph(num_nodes, tuple(edges))


class OverNodes(nn.Module):
    """The layers of a graph body, above its embedding, as one graph layer."""

    def __init__(self, body: Any):
        super().__init__()
        self.body = body
        self.num_types, self.reach, self.both_ways = body.num_types, body.reach, body.both_ways

    def forward(self, x: Tensor, graphs: GraphBatch) -> tuple[Tensor]:
        return (self.body.read(x, graphs)[-1],)


GRAPH_LAWS: dict[str, Law] = {
    "contract": graph_contract,
    "graphs alone": graphs_alone,
    "renamed nodes": renamed_nodes,
    "what a node sees": what_a_node_sees,
}
