"""The phases of a step. Means and variances over a row need the units of other blocks, so they divide the step into
phases."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from clew.kernels.cells.errors import Terms, terms_of
from clew.kernels.cells.expressions import ACROSS, Graph, Node, in_order, rebuilt

MOST_TOGETHER = 8
"""The most means and variances of a step for which `with_early_means` saves a phase."""


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
    """Compute means of sums that contain earlier means in one phase with those, if the phase stays small. For numbers m
    of the row,

        mean(a + b m) = mean(a) + mean(b) m
    """
    one, zero = graph.constant(1.0), graph.constant(0.0)
    replacements: dict[Node, Node] = {}
    rows = {one}
    """Numbers of the row."""
    terms: dict[Node, Terms] = {}
    """The nodes that depend on means, as sums over numbers of the row, or over nodes that are no such sum."""
    for node in in_order(nodes):
        if not node.arguments:
            continue
        new = graph.apply(node.name, *(replacements.get(argument, argument) for argument in node.arguments))
        depends = any(argument in terms for argument in new.arguments)
        if new.name in ACROSS:
            sums = [terms.get(argument, {one: argument}) for argument in new.arguments]
            numbers = dict.fromkeys(number for each in sums for number in each)
            if new.name == "mean" and depends and rows.issuperset(numbers):
                means = [graph.apply("mean", *(each.get(number, zero) for each in sums)) for number in numbers]
                new = graph.sum(graph.apply("multiply", *pair) for pair in zip(means, numbers, strict=True))
            rows.add(new)
            terms[new] = {new: one}
        elif depends:
            terms[new] = terms_of(graph, new, terms) or {new: one}
        replacements[node] = new
    early = rebuilt(graph, nodes, replacements)
    return early if sum(node.name in ACROSS for node in in_order(early)) <= MOST_TOGETHER else list(nodes)


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
