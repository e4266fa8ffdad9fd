"""`python -m benchmarks.trees [--count N] [--batch N]`: trees a second of the two Tree-LSTMs, trained and read.

The same random trees of 20 words under a layer of width 150: in batches, level by level over all of them; one tree at a
time through the same layer; and node by node, as a recursive function that calls a cell. All three give the same
vectors, which is checked first.
"""

import argparse
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import torch
from torch import Tensor

from benchmarks.side_by_side import device, timed
from clew.core.tree_batches import TreeBatch, batch_trees
from clew.core.tree_nodes import Nodes
from clew.layers.recurrence.lstm_cells import LSTMState
from clew.layers.shapes.tree_lstm import TREE_LAYERS, TreeLSTM

WORDS, DIM, ROUNDS = 20, 150, 5

Way = Callable[[TreeLSTM, Sequence[Nodes], Sequence[Tensor]], list[Tensor]]


def random_tree(words: int, random: Random) -> Nodes:
    """A binary tree over so many words: two neighbours that are drawn become a phrase until one is left."""
    open_nodes, parents, slots = list(range(words)), [-1] * (2 * words - 1), [0] * (2 * words - 1)
    for phrase in range(words, 2 * words - 1):
        place = random.randrange(len(open_nodes) - 1)
        for slot, child in enumerate(open_nodes[place : place + 2]):
            parents[child], slots[child] = phrase, slot
        open_nodes[place : place + 2] = [phrase]
    return Nodes(tuple(parents), tuple(slots))


def batched(size: int) -> Way:
    def read(layer: TreeLSTM, trees: Sequence[Nodes], inputs: Sequence[Tensor]) -> list[Tensor]:
        found: list[Tensor] = []
        for start in range(0, len(trees), size):
            batch = moved(batch_trees(trees[start : start + size]), inputs[0])
            found += layer(torch.stack(list(inputs[start : start + size])), batch).hidden.unbind(0)
        return found

    return read


def moved(trees: TreeBatch, like: Tensor) -> TreeBatch:
    return TreeBatch(*(part.to(like.device) for part in trees))


def node_by_node(layer: TreeLSTM, trees: Sequence[Nodes], inputs: Sequence[Tensor]) -> list[Tensor]:
    """A function that calls itself for every child, and then the layer's equations for one node."""
    return [recursive(layer, tree, x) for tree, x in zip(trees, inputs, strict=True)]


def recursive(layer: TreeLSTM, tree: Nodes, x: Tensor) -> Tensor:
    children: list[list[int]] = [[] for _ in tree.parents]
    for node, parent in enumerate(tree.parents):
        if parent >= 0:
            children[parent].append(node)
    states: dict[int, LSTMState] = {}

    def state_of(node: int) -> LSTMState:
        below = [state_of(child) for child in sorted(children[node], key=tree.slots.__getitem__)]
        states[node] = one_node(layer, x[node], below)
        return states[node]

    state_of(tree.parents.index(-1))
    return torch.stack([states[node].hidden for node in range(len(tree.parents))])


def one_node(layer: Any, x: Tensor, below: Sequence[LSTMState]) -> LSTMState:
    i, f, c, o = (layer.input_weight @ x + layer.bias).chunk(4)
    dim = layer.dim
    kept = torch.zeros_like(c)
    if below and hasattr(layer, "num_children"):
        hidden = torch.cat([state.hidden for state in below])
        widths = [dim, layer.num_children * dim, dim, dim]
        from_i, from_f, from_c, from_o = (layer.hidden_weight @ hidden).split(widths)
        gates = torch.sigmoid(f + from_f.view(layer.num_children, dim))
        kept = sum(gate * state.cell for gate, state in zip(gates, below, strict=True))  # type: ignore[assignment]
        i, c, o = i + from_i, c + from_c, o + from_o
    elif below:
        weights = layer.hidden_weight.chunk(4)
        hidden = torch.stack([state.hidden for state in below]).sum(0)
        kept = sum(torch.sigmoid(f + weights[1] @ state.hidden) * state.cell for state in below)  # type: ignore[assignment]
        i, c, o = i + weights[0] @ hidden, c + weights[2] @ hidden, o + weights[3] @ hidden
    cell = torch.sigmoid(i) * torch.tanh(c) + kept
    return LSTMState(torch.sigmoid(o) * torch.tanh(cell), cell)


def seconds(
    ways: dict[str, Way], layer: TreeLSTM, trees: Sequence[Nodes], inputs: Sequence[Tensor], trains: bool
) -> dict[str, float]:
    """The fastest of some rounds of each, in turns, so that a noisy machine is noisy to all."""

    def call(way: Way) -> None:
        with torch.set_grad_enabled(trains):
            found = way(layer, trees, inputs)
            if trains:
                layer.zero_grad()
                torch.stack([rows.sum() for rows in found]).sum().backward()

    rounds = [{name: timed(lambda way=way: call(way)) for name, way in ways.items()} for _ in range(ROUNDS)]  # type: ignore[misc]
    return {name: min(times[name] for times in rounds) for name in ways}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trees", description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="trees")
    parser.add_argument("--batch", type=int, default=25, help="trees in a batch")
    options = parser.parse_args()
    place, random = device(), Random(0)
    torch.manual_seed(0)
    trees = [random_tree(WORDS, random) for _ in range(options.count)]
    inputs = list(torch.randn(options.count, 2 * WORDS - 1, DIM, device=place))
    where = torch.cuda.get_device_name() if place.type == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    print(f"{where}, torch {torch.__version__}; {options.count} trees of {WORDS} words, width {DIM}", flush=True)
    ways: dict[str, Way] = {
        f"{options.batch} at once": batched(options.batch),
        f"{len(trees)} at once": batched(len(trees)),
        "one at a time": batched(1),
        "node by node": node_by_node,
    }
    for name, build in TREE_LAYERS.items():
        layer = build(DIM, DIM).to(place)
        with torch.no_grad():
            expected = node_by_node(layer, trees[:5], inputs[:5])
            for found in (batched(5)(layer, trees[:5], inputs[:5]), batched(1)(layer, trees[:5], inputs[:5])):
                torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)
        trained, read = (seconds(ways, layer, trees, inputs, trains) for trains in (True, False))
        for label in ways:
            speeds = [options.count / times[label] for times in (trained, read)]
            print(
                f"{name:16} {label:16} {speeds[0]:>10,.0f} trees/s trained  {speeds[1]:>10,.0f} trees/s read",
                flush=True,
            )
