"""The nodes of a step's graph on float64 numbers, (batch, width) each, one operation at a time as `OPERATIONS` defines
it on numbers."""

from collections.abc import Mapping, Sequence

import numpy as np

from clew.kernels.cells.expressions import OPERATIONS, Node, in_order


def evaluate(nodes: Sequence[Node], leaves: Mapping[Node, np.ndarray]) -> list[np.ndarray]:
    shape = np.broadcast_shapes(*(leaf.shape for leaf in leaves.values()))
    values = {node: np.broadcast_to(leaf, shape) for node, leaf in leaves.items()}
    for node in in_order(nodes):
        if node.name == "constant":
            values[node] = np.full(shape, node.value)
        elif node not in values:
            arguments = [values[argument] for argument in node.arguments]
            if node.name == "mean":
                rows = np.stack(arguments, 1).reshape(shape[0], -1)  # for every unit of every argument
                values[node] = np.repeat([[OPERATIONS["mean"].value(*row)] for row in rows], shape[1], 1)
            else:
                values[node] = np.vectorize(OPERATIONS[node.name].value, otypes=[float])(*arguments)
    return [values[node] for node in nodes]
