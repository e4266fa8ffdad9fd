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


def with_early_means(graph: Graph, nodes: Sequence[Node]) -> list[Node]:
    """Compute means of sums with earlier means in one phase with those. For a row's number m,

        mean(a + b m) = mean(a) + mean(b) m
    """
    replacements: dict[Node, Node] = {}
    has_mean: set[Node] = set()
    for node in in_order(nodes):
        if not node.arguments:
            continue
        new = graph.apply(node.name, *(replacements.get(argument, argument) for argument in node.arguments))
        if new.name == "mean":
            sums = [_sum_with_means(graph, argument, has_mean) for argument in new.arguments]
            if any(sums) and all(each is not None for each in sums):
                new = _mean_of_sums(graph, [each or {} for each in sums])
        replacements[node] = new
        has_mean.update(each for each in in_order([new]) if each.name in ACROSS or has_mean.intersection(each.arguments))
    return rebuilt(graph, nodes, replacements)


def _mean_of_sums(graph: Graph, sums: Sequence[dict[Node, Node]]) -> Node:
    """Return the mean over sums of terms, each the coefficient of a row's number."""
    numbers = dict.fromkeys(number for terms in sums for number in terms)
    zero = graph.constant(0.0)
    means = ((number, graph.apply("mean", *(terms.get(number, zero) for terms in sums))) for number in numbers)
    return graph.sum(graph.apply("multiply", mean, number) for number, mean in means)


def _sum_with_means(graph: Graph, node: Node, has_mean: set[Node]) -> dict[Node, Node] | None:
    """Write a node as a sum of coefficients times means, with the coefficient of 1 for the rest; None if it is not such
    a sum."""
    one, zero = graph.constant(1.0), graph.constant(0.0)
    if node not in has_mean:
        return {} if node.value == 0.0 else {one: node}
    if node.name == "mean":
        return {node: one}
    sums = [_sum_with_means(graph, argument, has_mean) for argument in node.arguments]
    if any(each is None for each in sums):
        return None
    first, *rest = (each or {} for each in sums)
    is_plain = [argument not in has_mean for argument in node.arguments]

    def each_of(terms: dict[Node, Node], name: str, *others: Node) -> dict[Node, Node]:
        return {number: graph.apply(name, coefficient, *others) for number, coefficient in terms.items()}

    match node.name:
        case "add":
            return _added(graph, first, rest[0])
        case "subtract":
            return _added(graph, first, each_of(rest[0], "negate"))
        case "negate":
            return each_of(first, "negate")
        case "multiply" if is_plain[1]:
            return each_of(first, "multiply", node.arguments[1])
        case "multiply" if is_plain[0]:
            return each_of(rest[0], "multiply", node.arguments[0])
        case "divide" if is_plain[1]:
            return each_of(first, "divide", node.arguments[1])
        case "where" if is_plain[0]:
            test, (left, right) = node.arguments[0], rest
            return {
                number: graph.apply("where", test, left.get(number, zero), right.get(number, zero))
                for number in {**left, **right}
            }
    return None


def _added(graph: Graph, left: dict[Node, Node], right: dict[Node, Node]) -> dict[Node, Node]:
    total = dict(left)
    for number, coefficient in right.items():
        total[number] = graph.apply("add", total[number], coefficient) if number in total else coefficient
    return total


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
