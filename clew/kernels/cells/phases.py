"""The order in which a step is computed where units of other blocks are asked for: means and variances over a row part it into phases."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from clew.kernels.cells.expressions import ACROSS, Graph, Node, in_order, rebuilt


class Phase(NamedTuple):
    """Nodes of a unit's own, and then the means and variances of them that all blocks work out together."""

    own: list[Node]
    across: list[Node]


def phases_of(nodes: Iterable[Node]) -> list[Phase]:
    """All that nodes are made of, but leaves and constants, which are there from the beginning."""
    when: dict[Node, int] = {}
    phases = [Phase([], [])]
    for node in in_order(nodes):
        when[node] = max((when[argument] for argument in node.arguments), default=0)
        if not node.arguments:
            continue
        is_across = node.name in ACROSS
        phases[when[node]][is_across].append(node)
        if is_across:
            when[node] += 1
            if when[node] == len(phases):
                phases.append(Phase([], []))
    return phases


def with_variances(graph: Graph, nodes: Sequence[Node]) -> list[Node]:
    """The same nodes, each mean of squared differences from the mean of the same numbers being a variance: it takes one phase, not two."""
    known: dict[Node, Node] = {}
    for node in in_order(nodes):
        if not node.arguments:
            continue
        new = graph.apply(node.name, *(known.get(argument, argument) for argument in node.arguments))
        spread = _spread(new) if new.name == "mean" else None
        known[node] = new if spread is None else graph.apply("variance", *spread)
    return rebuilt(graph, nodes, known)


def _spread(mean: Node) -> list[Node] | None:
    """The numbers x of mean((x - mean(x))^2)."""
    numbers = []
    for square in mean.arguments:
        if square.name != "multiply" or square.arguments[0] is not square.arguments[1]:
            return None
        difference = square.arguments[0]
        if difference.name != "subtract" or difference.arguments[1].name != "mean":
            return None
        numbers.append(difference.arguments)
    means = {inner for _, inner in numbers}
    values = [value for value, _ in numbers]
    is_own = len(means) == 1 and next(iter(means)).arguments == tuple(values)
    return values if is_own else None
