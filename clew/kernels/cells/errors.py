"""The backward pass of a step as a few sums, so that most of it is computed for all steps at once.

An error is linear in the errors that come in: of the output, and of each state after the step. Its coefficients depend on the forward pass
alone, so they are known for all steps before the first one backwards:

    error = coefficient_1 * base_1 + ... + coefficient_n * base_n

A base is an error that comes in, or one that several others need and that is itself a sum of several terms.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from clew.kernels.cells.expressions import Graph, Node, errors_of, in_order

Terms = dict[Node, Node]
"""Coefficients by their bases."""


class Sums(NamedTuple):
    """`bases` are computed in this order, from earlier ones. A base that is a mean has the terms of each of its arguments."""

    bases: dict[Node, list[Terms]]
    errors: dict[Node, Node]
    """Of a leaf: the node of its error."""
    terms: dict[Node, Terms]
    """Of those leaves whose errors have to be there before the step before can go on: products and states."""


def sums_of(graph: Graph, outputs: Sequence[tuple[Node, Node]]) -> Sums:
    """Of pairs of an output and the leaf that stands for its error."""
    errors = {node: error for node, error in errors_of(graph, outputs).items() if node.is_leaf}
    wanted = [node for node in errors if node.name in ("product", "state")]
    order = in_order(errors[node] for node in wanted)
    incoming = {error for _, error in outputs}
    is_linear: dict[Node, bool] = {}
    for node in order:
        is_linear[node] = node in incoming or any(is_linear[argument] for argument in node.arguments)
    uses = Counter(argument for node in order if is_linear[node] for argument in node.arguments)
    uses.update(errors[node] for node in wanted)

    bases: dict[Node, list[Terms]] = {}
    terms: dict[Node, Terms] = {}
    one = graph.constant(1.0)
    for node in order:
        if not is_linear[node]:
            continue
        if node in incoming:
            terms[node] = {node: one}
        elif node.name == "mean":
            bases[node] = [terms.get(argument, {}) for argument in node.arguments]
            terms[node] = {node: one}
        else:
            terms[node] = _terms(graph, node, terms)
            if len(terms[node]) > 1 and uses[node] > 1:
                bases[node] = [terms[node]]
                terms[node] = {node: one}
    return Sums(bases, errors, {node: terms.get(errors[node], {}) for node in wanted})


def _terms(graph: Graph, node: Node, terms: dict[Node, Terms]) -> Terms:
    first, *rest = node.arguments
    zero = graph.constant(0.0)
    match node.name:
        case "add":
            return _sum(graph, terms[first], terms[rest[0]])
        case "subtract":
            minus = {base: graph.apply("negate", coefficient) for base, coefficient in terms.get(rest[0], {}).items()}
            return _sum(graph, terms.get(first, {}), minus)
        case "negate":
            return {base: graph.apply("negate", coefficient) for base, coefficient in terms[first].items()}
        case "multiply":
            linear, factor = (first, rest[0]) if first in terms else (rest[0], first)
            return {base: graph.apply("multiply", coefficient, factor) for base, coefficient in terms[linear].items()}
        case "divide":
            return {base: graph.apply("divide", coefficient, rest[0]) for base, coefficient in terms[first].items()}
        case "where":
            chosen = {base: graph.apply("where", first, each, zero) for base, each in terms.get(rest[0], {}).items()}
            other = {base: graph.apply("where", first, zero, each) for base, each in terms.get(rest[1], {}).items()}
            return _sum(graph, chosen, other)
    raise AssertionError(node.name)  # no derivative has any other operation on errors


def _sum(graph: Graph, left: Terms, right: Terms) -> Terms:
    together = dict(left)
    for base, coefficient in right.items():
        together[base] = graph.apply("add", together[base], coefficient) if base in together else coefficient
    return together
