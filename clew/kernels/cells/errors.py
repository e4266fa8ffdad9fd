"""The backward pass of a step as a few sums, so most of it can be computed for all steps at once.

The error (gradient) of a node is linear in the incoming errors: those of the output, and of each state after the step.
Its coefficients depend only on the forward pass, so they are known for all steps before the backward loop begins:

    error = coefficient_1 * base_1 + ... + coefficient_n * base_n

A base is an incoming error, or a sum of several terms that several errors share.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from clew.kernels.cells.expressions import Graph, Node, errors_of, in_order

Terms = dict[Node, Node]
"""The coefficient of each base."""


class Sums(NamedTuple):
    """`bases` are in order of computation: each depends only on earlier ones. A base that is a mean has a group of
    terms for each of its arguments."""

    bases: dict[Node, list[Terms]]
    errors: dict[Node, Node]
    """The error node of each leaf."""
    terms: dict[Node, Terms]
    """The terms of the leaves whose errors the previous step needs: products and states."""


def sums_of(graph: Graph, outputs: Sequence[tuple[Node, Node]]) -> Sums:
    """Write the backward pass as sums; `outputs` are pairs of an output and the leaf that represents its error."""
    errors = {node: error for node, error in errors_of(graph, outputs).items() if node.is_leaf}
    needed = [node for node in errors if node.name in ("product", "state")]
    order = in_order(errors[node] for node in needed)
    incoming = {error for _, error in outputs}
    is_linear: dict[Node, bool] = {}
    for node in order:
        is_linear[node] = node in incoming or any(is_linear[argument] for argument in node.arguments)
    uses = Counter(argument for node in order if is_linear[node] for argument in node.arguments)
    uses.update(errors[node] for node in needed)

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
            sum_of_node = terms_of(graph, node, terms)
            assert sum_of_node is not None, node.name  # derivatives apply no other operation to errors
            terms[node] = sum_of_node
            if len(terms[node]) > 1 and uses[node] > 1:
                bases[node] = [terms[node]]
                terms[node] = {node: one}
    return Sums(bases, errors, {node: terms.get(errors[node], {}) for node in needed})


def terms_of(graph: Graph, node: Node, terms: dict[Node, Terms]) -> Terms | None:
    """Write an operation on sums as a sum. `terms` has the sums among its arguments; every other argument is the
    coefficient of 1. Returns None if the result is not linear in the bases."""

    def sum_of(argument: Node) -> Terms:
        if argument in terms:
            return terms[argument]
        return {} if argument.value == 0.0 else {graph.constant(1.0): argument}

    def each(name: str, coefficients: Terms, *factors: Node) -> Terms:
        return {base: graph.apply(name, coefficient, *factors) for base, coefficient in coefficients.items()}

    first, *rest = node.arguments
    zero, are_factors = graph.constant(0.0), [argument not in terms for argument in node.arguments]
    match node.name:
        case "add":
            return _added(graph, sum_of(first), sum_of(rest[0]))
        case "subtract":
            return _added(graph, sum_of(first), each("negate", sum_of(rest[0])))
        case "negate":
            return each("negate", terms[first])
        case "multiply" if any(are_factors):
            linear, factor = (first, rest[0]) if are_factors[1] else (rest[0], first)
            return each("multiply", terms[linear], factor)
        case "divide" if are_factors[1]:
            return each("divide", terms[first], rest[0])
        case "where" if are_factors[0]:
            left = {base: graph.apply("where", first, part, zero) for base, part in sum_of(rest[0]).items()}
            right = {base: graph.apply("where", first, zero, part) for base, part in sum_of(rest[1]).items()}
            return _added(graph, left, right)
    return None


def _added(graph: Graph, left: Terms, right: Terms) -> Terms:
    total = dict(left)
    for base, coefficient in right.items():
        total[base] = graph.apply("add", total[base], coefficient) if base in total else coefficient
    return total
