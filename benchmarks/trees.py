"""`python -m benchmarks.trees [--count N] [--batch N]`: trees per second of the two Tree-LSTMs, in training and
inference.

A layer of width 150 reads the same random trees of 20 words in three ways: in batches, level by level over all trees of
a batch; one tree at a time; and node by node, in a recursive function that calls a cell. The three are first checked to
give the same vectors.
"""

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any

import torch
from torch import Tensor

from benchmarks.side_by_side import default_device, timed
from clew.core.tree_batches import TreeBatch, batch_trees
from clew.core.tree_nodes import Nodes
from clew.layers.recurrence.lstm_cells import LSTMState
from clew.layers.shapes.tree_lstm import TREE_LAYERS, TreeLSTM

WORDS, DIM, ROUNDS = 20, 150, 5

Variant = Callable[[TreeLSTM, Sequence[Nodes], Sequence[Tensor]], list[Tensor]]


def random_tree(words: int, random: Random) -> Nodes:
    """Draw a binary tree over `words` words: join two random neighbours to a phrase until one phrase is left."""
    open_nodes, parents, slots = list(range(words)), [-1] * (2 * words - 1), [0] * (2 * words - 1)
    for phrase in range(words, 2 * words - 1):
        position = random.randrange(len(open_nodes) - 1)
        for slot, child in enumerate(open_nodes[position : position + 2]):
            parents[child], slots[child] = phrase, slot
        open_nodes[position : position + 2] = [phrase]
    return Nodes(tuple(parents), tuple(slots))


def batched(size: int) -> Variant:
    def read(layer: TreeLSTM, trees: Sequence[Nodes], inputs: Sequence[Tensor]) -> list[Tensor]:
        vectors: list[Tensor] = []
        for start in range(0, len(trees), size):
            batch = move(batch_trees(trees[start : start + size]), inputs[0])
            vectors += layer(torch.stack(list(inputs[start : start + size])), batch).hidden.unbind(0)
        return vectors

    return read


def move(trees: TreeBatch, like: Tensor) -> TreeBatch:
    return TreeBatch(*(part.to(like.device) for part in trees))


def node_by_node(layer: TreeLSTM, trees: Sequence[Nodes], inputs: Sequence[Tensor]) -> list[Tensor]:
    """Read each tree with a recursive function that applies the layer's equations to one node."""
    return [read_recursively(layer, tree, x) for tree, x in zip(trees, inputs, strict=True)]


def read_recursively(layer: TreeLSTM, tree: Nodes, x: Tensor) -> Tensor:
    children: list[list[int]] = [[] for _ in tree.parents]
    for node, parent in enumerate(tree.parents):
        if parent >= 0:
            children[parent].append(node)
    states: dict[int, LSTMState] = {}

    def visit(node: int) -> LSTMState:
        below = [visit(child) for child in sorted(children[node], key=tree.slots.__getitem__)]
        states[node] = node_state(layer, x[node], below)
        return states[node]

    visit(tree.parents.index(-1))
    return torch.stack([states[node].hidden for node in range(len(tree.parents))])


def node_state(layer: Any, x: Tensor, below: Sequence[LSTMState]) -> LSTMState:
    i, f, c, o = (layer.input_weight @ x + layer.bias).chunk(4)
    dim = layer.dim
    kept = torch.zeros_like(c)
    if below and hasattr(layer, "num_children"):
        hidden = torch.cat([state.hidden for state in below])
        widths = [dim, layer.num_children * dim, dim, dim]
        from_i, from_f, from_c, from_o = (layer.hidden_weight @ hidden).split(widths)
        gates = list(torch.sigmoid(f + from_f.view(layer.num_children, dim)))
        kept = sum(gate * state.cell for gate, state in zip(gates, below, strict=True))  # type: ignore[assignment]
        i, c, o = i + from_i, c + from_c, o + from_o
    elif below:
        weights = layer.hidden_weight.chunk(4)
        hidden = torch.stack([state.hidden for state in below]).sum(0)
        gates = [torch.sigmoid(f + weights[1] @ state.hidden) for state in below]
        kept = sum(gate * state.cell for gate, state in zip(gates, below, strict=True))  # type: ignore[assignment]
        i, c, o = i + weights[0] @ hidden, c + weights[2] @ hidden, o + weights[3] @ hidden
    cell = torch.sigmoid(i) * torch.tanh(c) + kept
    return LSTMState(torch.sigmoid(o) * torch.tanh(cell), cell)


def seconds(
    variants: dict[str, Variant],
    layer: TreeLSTM,
    trees: Sequence[Nodes],
    inputs: Sequence[Tensor],
    with_gradients: bool,
) -> dict[str, float]:
    """Time all variants, in turns because of noise, and return the fastest round of each."""

    def call(variant: Variant) -> None:
        with torch.set_grad_enabled(with_gradients):
            vectors = variant(layer, trees, inputs)
            if with_gradients:
                layer.zero_grad()
                torch.stack([rows.sum() for rows in vectors]).sum().backward()

    rounds = [{name: timed(partial(call, variant)) for name, variant in variants.items()} for _ in range(ROUNDS)]
    return {name: min(times[name] for times in rounds) for name in variants}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trees", description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="number of trees")
    parser.add_argument("--batch", type=int, default=25, help="trees per batch")
    options = parser.parse_args()
    device, random = default_device(), Random(0)
    torch.manual_seed(0)
    trees = [random_tree(WORDS, random) for _ in range(options.count)]
    inputs = list(torch.randn(options.count, 2 * WORDS - 1, DIM, device=device))
    hardware = torch.cuda.get_device_name() if device.type == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    print(f"{hardware}, torch {torch.__version__}; {options.count} trees of {WORDS} words, width {DIM}", flush=True)
    variants: dict[str, Variant] = {
        f"{options.batch} at once": batched(options.batch),
        f"{len(trees)} at once": batched(len(trees)),
        "one at a time": batched(1),
        "node by node": node_by_node,
    }
    for name, build in TREE_LAYERS.items():
        layer = build(DIM, DIM).to(device)
        with torch.no_grad():
            expected = node_by_node(layer, trees[:5], inputs[:5])
            for vectors in (batched(5)(layer, trees[:5], inputs[:5]), batched(1)(layer, trees[:5], inputs[:5])):
                torch.testing.assert_close(vectors, expected, rtol=1e-3, atol=1e-4)
        training, inference = (seconds(variants, layer, trees, inputs, trains) for trains in (True, False))
        for label in variants:
            speeds = [options.count / times[label] for times in (training, inference)]
            print(
                f"{name:16} {label:16} {speeds[0]:>10,.0f} trees/s training  {speeds[1]:>10,.0f} trees/s inference",
                flush=True,
            )
