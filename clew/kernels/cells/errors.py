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
            terms[node] = _terms(graph, node, terms)
            if len(terms[node]) > 1 and uses[node] > 1:
                bases[node] = [terms[node]]
                terms[node] = {node: one}
    return Sums(bases, errors, {node: terms.get(errors[node], {}) for node in needed})


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
    raise AssertionError(node.name)  # derivatives apply no other operation to errors


def _sum(graph: Graph, left: Terms, right: Terms) -> Terms:
    total = dict(left)
    for base, coefficient in right.items():
        total[base] = graph.apply("add", total[base], coefficient) if base in total else coefficient
    return total
