"""Evaluate the nodes of a step's graph for all steps at once, as tensors."""

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from clew.kernels.cells.expressions import Graph, Node
from clew.kernels.cells.plans import AT_ONCE

Values = dict[Node, Tensor]
"""The values of nodes at all steps (length, batch, width); without the length axis if they are constant over steps."""


def evaluated(node: Node, values: Values) -> Tensor:
    """Evaluate a node at all steps from nodes in `values`, and add it and its arguments there."""
    for each in in_order_of_missing(node, values):
        values[each] = AT_ONCE[each.name](*(values[argument] for argument in each.arguments))
    return values[node]


def in_order_of_missing(node: Node, values: Values) -> list[Node]:
    missing: dict[Node, None] = {}
    stack = [(node, False)]
    while stack:
        each, is_open = stack.pop()
        if is_open:
            missing.setdefault(each)
        elif each not in values and each not in missing:
            stack.append((each, True))
            stack += [(argument, False) for argument in each.arguments]
    return list(missing)


class Constants(Values):
    """Values that include every constant node."""

    def __init__(self, like: Tensor):
        super().__init__()
        self.like = like

    def __contains__(self, node: object) -> bool:
        return super().__contains__(node) or (isinstance(node, Node) and node.name == "constant")

    def __missing__(self, node: Node) -> Tensor:
        assert node.value is not None, node
        self[node] = self.like.new_full((), node.value)
        return self[node]


class Tensors(NamedTuple):
    """The tensors of a walk: inputs (batch, length, n * width), and the others as in a `Step`."""

    inputs: Sequence[Tensor | None]
    fixed: Sequence[Tensor]
    weights: Sequence[Tensor]
    states: Sequence[Tensor]


def known(graph: Graph, tensors: Tensors, real: Tensor | None) -> Constants:
    """Return the values of leaves that are known before the first step."""
    batch, width = tensors.states[0].shape
    values = Constants(tensors.states[0])
    first = 0
    for x in tensors.inputs:
        if x is not None:
            for block, each in enumerate(x.transpose(0, 1).split(width, -1)):
                values[graph.leaf("input", first + block)] = each
            first += x.shape[2] // width
    for place, fixed in enumerate(tensors.fixed):
        values[graph.leaf("fixed", place)] = fixed
    if real is not None:
        values[graph.leaf("real")] = real.mT[..., None]
    return values
