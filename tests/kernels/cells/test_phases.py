"""Phases of a step: what all blocks compute together."""

import random

import pytest

from clew.kernels.cells.expressions import ACROSS, OPERATIONS, Graph, Node, in_order
from clew.kernels.cells.phases import MOST_TOGETHER, phases_of, with_early_means

UNITS = 5


def value_of(node: Node) -> list[float]:
    """The values of a node in all units; those of leaves are random."""
    values: dict[Node, list[float]] = {}
    for each in in_order([node]):
        arguments = [values[argument] for argument in each.arguments]
        if each.value is not None:
            values[each] = [each.value] * UNITS
        elif not arguments:
            rnd = random.Random(f"{each.name} {each.place}")
            values[each] = [rnd.uniform(-2, 2) for _ in range(UNITS)]
        elif each.name in ACROSS:
            values[each] = [OPERATIONS[each.name].value(*(x for of in arguments for x in of))] * UNITS
        else:
            values[each] = [OPERATIONS[each.name].value(*numbers) for numbers in zip(*arguments, strict=True)]
    return values[node]


def num_waits(node: Node) -> int:
    return sum(bool(phase.across) for phase in phases_of([node]))


def linear(graph: Graph, earlier: Node, place: int) -> Node:
    """A sum with an earlier number, through every operation that keeps it a sum."""
    x, y, test = (graph.leaf(name, place) for name in ("x", "y", "test"))
    shifted = graph.apply("subtract", graph.apply("multiply", x, earlier), y)
    divided = graph.apply("divide", graph.apply("negate", shifted), graph.apply("exp", y))
    chosen = graph.apply("where", graph.apply("greater", test, graph.constant(0.0)), divided, x)
    return graph.apply("add", chosen, graph.apply("multiply", earlier, graph.constant(3.0)))


def test_means_of_sums_with_earlier_means_need_no_phase_of_their_own() -> None:
    graph = Graph()
    first = graph.apply("mean", graph.leaf("x"))
    second = graph.apply("mean", linear(graph, first, 1), graph.leaf("z"), graph.constant(0.0))
    third = graph.apply("multiply", graph.apply("mean", linear(graph, second, 2)), first)
    [early] = with_early_means(graph, [third])
    assert num_waits(third) == 3 and num_waits(early) == 1
    assert value_of(early) == pytest.approx(value_of(third), rel=1e-12)


@pytest.mark.parametrize("name", ["tanh", "square"])
def test_other_functions_of_a_mean_keep_their_phase(name: str) -> None:
    graph = Graph()
    inner = graph.apply("add", graph.apply("mean", graph.leaf("x")), graph.leaf("y"))
    bent = graph.apply("multiply", inner, inner) if name == "square" else graph.apply("tanh", inner)
    outer = graph.apply("mean", bent)
    last = graph.apply("mean", graph.apply("multiply", outer, graph.leaf("z")))
    [early] = with_early_means(graph, [last])
    assert num_waits(last) == 3 and num_waits(early) == 2
    assert value_of(early) == pytest.approx(value_of(last), rel=1e-12)


def test_a_phase_that_would_become_large_stays_divided() -> None:
    graph = Graph()
    mean = graph.apply("mean", graph.leaf("x"))
    for place in range(MOST_TOGETHER):
        mean = graph.apply("mean", linear(graph, mean, place))
    assert with_early_means(graph, [mean]) == [mean]
