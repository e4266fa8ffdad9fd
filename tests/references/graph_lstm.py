"""Graph LSTMs from their equations, for one node, edge and unit at a time. Weights are stacked by gate: i, f,
candidate, o."""

import math

import numpy as np

from tests.references.cells import affine, sigmoid


def step(p: dict, x: np.ndarray, incoming, dim: int):
    """h and c of a node from its vector and its incoming edges, (type, h, c) of each."""
    from_x = affine(p["input_weight"], x) + p["bias"]

    def from_one(row: int, type: int, hidden: np.ndarray) -> float:
        """U h_k, or, with an embedding of types, sum_t e_t U_t h_k."""
        if "type_embedding" not in p:
            return sum(p["hidden_weight"][row, unit] * hidden[unit] for unit in range(dim))
        mixed = 0.0
        for number, share in enumerate(p["type_embedding"][type]):
            for unit in range(dim):
                mixed += share * p["hidden_weight"][row, number * dim + unit] * hidden[unit]
        return mixed

    h, c = np.zeros(dim), np.zeros(dim)
    for j in range(dim):
        sums = [
            from_x[gate * dim + j] + sum(from_one(gate * dim + j, type, hidden) for type, hidden, _ in incoming)
            for gate in range(4)
        ]
        c[j] = sigmoid(sums[0]) * math.tanh(sums[2])
        for type, hidden, cell in incoming:
            bias = p["type_offsets"][type, j] if "type_offsets" in p else 0.0
            c[j] += sigmoid(from_x[dim + j] + from_one(dim + j, type, hidden) + bias) * cell[j]
        h[j] = sigmoid(sums[3]) * math.tanh(c[j])
    return h, c


def given(p: dict, x: np.ndarray, graphs) -> np.ndarray:
    """Every node's h (batch, nodes, dim), 0 on padding, computed recursively from its predecessors."""
    dim = len(p["bias"]) // 4
    out = np.zeros((*x.shape[:2], dim))
    for row, graph in enumerate(graphs):
        computed: dict = {}

        def state(node, row=row, graph=graph, computed=computed):
            if node not in computed:
                incoming = [(type, *state(source)) for source, target, type in graph.edges if target == node]
                computed[node] = step(p, x[row, node], incoming, dim)
            return computed[node]

        for node in range(graph.num_nodes):
            out[row, node] = state(node)[0]
    return out


def rounds(p: dict, x: np.ndarray, graphs, num_rounds: int) -> np.ndarray:
    """The same in rounds: all nodes of a round from the states of the previous round."""
    dim = len(p["bias"]) // 4
    out = np.zeros((*x.shape[:2], dim))
    for row, graph in enumerate(graphs):
        states = [(np.zeros(dim), np.zeros(dim)) for _ in range(graph.num_nodes)]
        for _ in range(num_rounds):
            before = states
            states = []
            for node in range(graph.num_nodes):
                incoming = [(type, *before[source]) for source, target, type in graph.edges if target == node]
                states.append(step(p, x[row, node], incoming, dim))
        for node, (h, _) in enumerate(states):
            out[row, node] = h
    return out


def both_ways(p: dict, x: np.ndarray, graphs, read) -> np.ndarray:
    """`read(p, x, graphs)` along the edges and, with other parameters, in the opposite direction."""
    halves = []
    for name, way in (("forward_layer.", graphs), ("backward_layer.", [turned(graph) for graph in graphs])):
        halves.append(read({key.removeprefix(name): value for key, value in p.items() if key.startswith(name)}, x, way))
    return np.concatenate(halves, -1)


def turned(graph):
    return graph._replace(edges=tuple((target, source, type) for source, target, type in graph.edges))
