"""One step of a recurrence as a graph of scalar expressions for one row and one unit, and their derivatives. This file
knows neither torch nor GPUs.

A node is a leaf (an input, a product with the previous state, a state, a weight of the unit), a constant, or an
operation on nodes. Equal nodes are the same object, so a value that is used twice is computed once. All operations act
on one unit, except those in `ACROSS`: a mean or variance is over all units of a row and over all arguments, as a norm
needs.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple


class Node(NamedTuple):
    """`name` is an operation, "constant", or a kind of leaf; `place` is the value of a constant or the index of a
    leaf."""

    name: str
    arguments: tuple["Node", ...] = ()
    place: tuple[float, ...] = ()

    def __hash__(self) -> int:  # NamedTuple's own hash would traverse the whole graph at every look-up
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    @property
    def is_leaf(self) -> bool:
        return not self.arguments and self.name != "constant"

    @property
    def value(self) -> float | None:
        """The value of a constant; None for other nodes."""
        return self.place[0] if self.name == "constant" else None


class Graph:
    """Creates simplified nodes, each of them only once."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[Any, ...], Node] = {}

    def leaf(self, kind: str, *place: int) -> Node:
        return self._node(kind, (), place)

    def constant(self, value: float) -> Node:
        return self._node("constant", (), (float(value),))

    def apply(self, name: str, *arguments: Node) -> Node:
        if name not in ACROSS and all(argument.name == "constant" for argument in arguments):
            return self.constant(OPERATIONS[name].value(*(argument.place[0] for argument in arguments)))
        first, second = arguments[0], arguments[-1]
        match name:
            case "add" if first.value == 0.0:
                return second
            case "add" | "subtract" if second.value == 0.0:
                return first
            case "subtract" if first.value == 0.0:
                return self.apply("negate", second)
            case "multiply" if 0.0 in (first.value, second.value):
                return self.constant(0.0)
            case "multiply" if first.value == 1.0:
                return second
            case "multiply" | "divide" if second.value == 1.0:
                return first
            case "negate" if first.name == "negate":
                return first.arguments[0]
        return self._node(name, arguments, ())

    def _node(self, name: str, arguments: tuple[Node, ...], place: tuple[float, ...]) -> Node:
        key = (name, *map(id, arguments), *place)
        return self._nodes.setdefault(key, Node(name, arguments, place))

    def sum(self, terms: Iterable[Node]) -> Node:
        total = self.constant(0.0)
        for term in terms:
            total = self.apply("add", total, term)
        return total


class Operation(NamedTuple):
    """`value` computes the operation on numbers, `code` in C; `errors` maps the node and its error to the error of each
    argument."""

    value: Callable[..., float]
    code: str
    errors: Callable[[Graph, Node, Node], Sequence[Node | None]]


def _by_product(graph: Graph, node: Node, error: Node) -> Sequence[Node]:
    left, right = node.arguments
    return graph.apply("multiply", error, right), graph.apply("multiply", error, left)


def _by_quotient(graph: Graph, node: Node, error: Node) -> Sequence[Node]:
    above = graph.apply("divide", error, node.arguments[1])
    return above, graph.apply("negate", graph.apply("multiply", above, node))


def _times(factor: Callable[[Graph, Node], Node]) -> Callable[[Graph, Node, Node], Sequence[Node]]:
    return lambda graph, node, error: [graph.apply("multiply", error, factor(graph, node))]


def _one_minus(graph: Graph, node: Node) -> Node:
    return graph.apply("subtract", graph.constant(1.0), node)


def _of_sigmoid(graph: Graph, node: Node) -> Node:
    return graph.apply("multiply", node, _one_minus(graph, node))


def _of_tanh(graph: Graph, node: Node) -> Node:
    return _one_minus(graph, graph.apply("multiply", node, node))


def _of_rsqrt(graph: Graph, node: Node) -> Node:
    cube = graph.apply("multiply", node, graph.apply("multiply", node, node))
    return graph.apply("multiply", graph.constant(-0.5), cube)


def _by_where(graph: Graph, node: Node, error: Node) -> Sequence[Node | None]:
    test, zero = node.arguments[0], graph.constant(0.0)
    return None, graph.apply("where", test, error, zero), graph.apply("where", test, zero, error)


def _by_mean(graph: Graph, node: Node, error: Node) -> Sequence[Node]:
    # Each unit is one of (units * arguments) terms: its error is the sum of the units' errors divided by that count,
    # again a mean.
    return [graph.apply("mean", error, *[graph.constant(0.0)] * (len(node.arguments) - 1))] * len(node.arguments)


def _by_larger(larger: int) -> Callable[[Graph, Node, Node], Sequence[Node]]:
    """Return errors that give the whole error to the chosen argument; if both are equal, each gets half of it, as in
    torch."""

    def errors(graph: Graph, node: Node, error: Node) -> Sequence[Node]:
        left, right = node.arguments if larger == 0 else node.arguments[::-1]
        zero, half = graph.constant(0.0), graph.apply("multiply", error, graph.constant(0.5))

        def where_greater(a: Node, b: Node) -> Node:
            return graph.apply(
                "where",
                graph.apply("greater", a, b),
                error,
                graph.apply("where", graph.apply("greater", b, a), zero, half),
            )

        return where_greater(left, right), where_greater(right, left)

    return errors


def _by_relu(graph: Graph, node: Node, error: Node) -> Sequence[Node]:
    zero = graph.constant(0.0)
    return [graph.apply("where", graph.apply("greater", node.arguments[0], zero), error, zero)]


def _by_absolute(graph: Graph, node: Node, error: Node) -> Sequence[Node]:
    (argument,), zero = node.arguments, graph.constant(0.0)
    if_not_positive = graph.apply("where", graph.apply("greater", zero, argument), graph.apply("negate", error), zero)
    return [graph.apply("where", graph.apply("greater", argument, zero), error, if_not_positive)]


def _by_sqrt(graph: Graph, node: Node, error: Node) -> Sequence[Node]:
    return [graph.apply("divide", graph.apply("multiply", error, graph.constant(0.5)), node)]


def _by_log(graph: Graph, node: Node, error: Node) -> Sequence[Node]:
    return [graph.apply("divide", error, node.arguments[0])]


def _by_log1p(graph: Graph, node: Node, error: Node) -> Sequence[Node]:
    return [graph.apply("divide", error, graph.apply("add", node.arguments[0], graph.constant(1.0)))]


def _of_erf(graph: Graph, node: Node) -> Node:
    square = graph.apply("multiply", node.arguments[0], node.arguments[0])
    return graph.apply(
        "multiply", graph.constant(2 / math.sqrt(math.pi)), graph.apply("exp", graph.apply("negate", square))
    )


def _variance(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / len(values)


def _by_variance(graph: Graph, node: Node, error: Node) -> Sequence[Node]:
    # 2 / count * (x - mean) times the sum of the units' errors. The mean itself passes no error: differences from it
    # sum to 0.
    (share, *_), mean = _by_mean(graph, node, error), graph.apply("mean", *node.arguments)
    twice = graph.apply("multiply", graph.constant(2.0), share)
    return [graph.apply("multiply", twice, graph.apply("subtract", argument, mean)) for argument in node.arguments]


def _no_error(graph: Graph, node: Node, error: Node) -> Sequence[Node | None]:
    return [None] * len(node.arguments)


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


ACROSS = ("mean", "variance")
"""Operations over all units of a row."""

OPERATIONS: dict[str, Operation] = {
    "add": Operation(lambda a, b: a + b, "({} + {})", lambda graph, node, error: (error, error)),
    "subtract": Operation(
        lambda a, b: a - b, "({} - {})", lambda graph, node, error: (error, graph.apply("negate", error))
    ),
    "multiply": Operation(lambda a, b: a * b, "({} * {})", _by_product),
    "divide": Operation(lambda a, b: a / b, "({} / {})", _by_quotient),
    "negate": Operation(lambda a: -a, "(-{})", lambda graph, node, error: [graph.apply("negate", error)]),
    "absolute": Operation(abs, "fabsf({})", _by_absolute),
    "sigmoid": Operation(_sigmoid, "sigmoid({})", _times(_of_sigmoid)),
    "tanh": Operation(math.tanh, "tangent({})", _times(_of_tanh)),
    "exp": Operation(math.exp, "expf({})", _times(lambda graph, node: node)),
    "log": Operation(math.log, "logf({})", _by_log),
    "log1p": Operation(math.log1p, "log1pf({})", _by_log1p),
    "erf": Operation(math.erf, "erff({})", _times(_of_erf)),
    "sqrt": Operation(math.sqrt, "sqrtf({})", _by_sqrt),
    "rsqrt": Operation(lambda a: a**-0.5, "rsqrtf({})", _times(_of_rsqrt)),
    "relu": Operation(lambda a: max(a, 0.0), "({0} < 0.0f ? 0.0f : {0})", _by_relu),
    "maximum": Operation(max, "({0} < {1} ? {1} : {0})", _by_larger(0)),
    "minimum": Operation(min, "({0} > {1} ? {1} : {0})", _by_larger(1)),
    "greater": Operation(lambda a, b: float(a > b), "({} > {} ? 1.0f : 0.0f)", _no_error),
    "where": Operation(lambda a, b, c: b if a else c, "({} != 0.0f ? {} : {})", _by_where),
    "mean": Operation(lambda *values: math.fsum(values) / len(values), "", _by_mean),
    "variance": Operation(lambda *values: _variance(values), "", _by_variance),
}
"""`maximum` of a number and NaN may be either, so only non-finite values can differ from torch's."""


def in_order(nodes: Iterable[Node]) -> list[Node]:
    """Return the nodes and everything on which they depend, arguments first."""
    ordered: dict[Node, None] = {}
    stack = [(node, False) for node in nodes][::-1]
    while stack:
        node, is_open = stack.pop()
        if is_open:
            ordered.setdefault(node)
        elif node not in ordered:
            stack.append((node, True))
            stack += [(argument, False) for argument in node.arguments[::-1]]
    return list(ordered)


def errors_of(graph: Graph, outputs: Sequence[tuple[Node, Node]]) -> dict[Node, Node]:
    """Return the error of every node that the outputs depend on, from pairs of an output and its error (reverse
    accumulation)."""
    total: dict[Node, list[Node]] = {}
    for node, error in outputs:
        total.setdefault(node, []).append(error)
    errors: dict[Node, Node] = {}
    for node in reversed(in_order(node for node, _ in outputs)):
        if node not in total:
            continue
        errors[node] = error = graph.sum(total[node])
        if node.arguments and error.value != 0.0:
            for argument, part in zip(node.arguments, OPERATIONS[node.name].errors(graph, node, error), strict=True):
                if part is not None and argument.name != "constant":
                    total.setdefault(argument, []).append(part)
    return errors


def rebuilt(graph: Graph, nodes: Sequence[Node], replacements: dict[Node, Node]) -> list[Node]:
    """Return the nodes with every node in `replacements` replaced."""
    new = dict(replacements)
    for node in in_order(nodes):
        if node not in new:
            new[node] = (
                graph.apply(node.name, *(new[argument] for argument in node.arguments)) if node.arguments else node
            )
    return [new[node] for node in nodes]
