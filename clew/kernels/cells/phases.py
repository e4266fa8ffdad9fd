"""The phases of a step. Means and variances over a row need the units of other blocks, so they divide the step into
phases."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from clew.kernels.cells.expressions import ACROSS, Graph, Node, in_order, rebuilt


class Phase(NamedTuple):
    """Nodes that each unit computes separately, followed by means and variances that all blocks compute together."""

    own: list[Node]
    across: list[Node]


def phases_of(nodes: Iterable[Node]) -> list[Phase]:
    """Divide everything on which the nodes depend, except leaves and constants, into phases."""
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
    """Replace each mean of squared differences from the mean by a variance, which takes one phase instead of two."""
    replacements: dict[Node, Node] = {}
    for node in in_order(nodes):
        if not node.arguments:
            continue
        new = graph.apply(node.name, *(replacements.get(argument, argument) for argument in node.arguments))
        spread = _spread(new) if new.name == "mean" else None
        replacements[node] = new if spread is None else graph.apply("variance", *spread)
    return rebuilt(graph, nodes, replacements)


def _spread(mean: Node) -> list[Node] | None:
    """Return the numbers x if the node is mean((x - mean(x))^2), else None."""
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
