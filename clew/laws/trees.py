"""Laws of layers that read trees: `(x (batch, nodes, input_dim), trees) -> (hidden (batch, nodes, dim), ...)`."""

from typing import Any

import torch
from torch import Tensor, nn

from clew.core.tree_batches import TreeBatch, batch_trees
from clew.core.tree_nodes import Nodes
from clew.laws.cases import Build, Case, Law, Sizes
from clew.laws.sequences import check_output

CHILDREN = 2


def tree_contract(build: Build, sizes: Sizes) -> None:
    """A tree layer returns a tuple whose first item is a vector (batch, nodes, dim) per node, of its input's type."""
    case = Case("contract", build, sizes)
    trees = [draw_tree(case, sizes.length) for _ in range(sizes.batch)]
    result = case.module(draw_nodes(case, sizes.batch), batch_trees(trees))
    if not isinstance(result, tuple):
        case.fail(f"a tree layer must return (hidden, ...), not a {type(result).__name__}")
    check_output(case, result[0], (sizes.batch, sizes.length, sizes.dim))


def trees_alone(build: Build, sizes: Sizes) -> None:
    """A tree has the same values and gradients alone and in a batch: neither padding nor other trees matter."""
    case = Case("trees alone", build, sizes)
    case.module.eval()
    trees = [draw_tree(case, case.randint(1, sizes.length)) for _ in range(sizes.batch)]
    x = draw_nodes(case, sizes.batch, max(len(tree.parents) for tree in trees)).requires_grad_()
    together = hidden_of(case, x, trees)
    for row, tree in enumerate(trees):
        n = len(tree.parents)
        alone = hidden_of(case, x[row : row + 1, :n], [tree])[0]
        case.same(f"the tree of row {row}, of {n} nodes, alone", alone, together[row, :n], axes=("node", "feature"))
        weights = [case.randn(n, sizes.dim)]
        expected, actual = (case.gradients([hidden], weights, x) for hidden in (alone, together[row, :n]))
        case.same_gradients(f"the tree of row {row} alone", expected, actual)


def what_is_below(build: Build, sizes: Sizes) -> None:
    """A node's vector depends on exactly its own input and those of the nodes below it."""
    for seed in range(sizes.seed, sizes.seed + 4):  # one small rectified layer may be dead, but not all four
        case = Case("what is below", build, sizes._replace(seed=seed))
        case.module.eval()
        tree = draw_tree(case, sizes.length)
        x = draw_nodes(case, 1).requires_grad_()
        hidden = hidden_of(case, x, [tree])[0]
        silent = False
        for node in range(sizes.length):
            (gradient,) = torch.autograd.grad(hidden[node].sum(), x, retain_graph=True)
            for other, felt in enumerate((gradient[0] != 0).any(1).tolist()):
                below = is_below(tree, other, node)
                if felt and not below:
                    case.fail(f"the vector of node {node} depends on the input of node {other}, which is not below it")
                silent = silent or (below and not felt)
        if not silent:
            return
    case.fail(
        "a node's vector does not depend on the inputs of all nodes below it; a step must use its children's states"
    )


def places(build: Build, sizes: Sizes) -> None:
    """The numbering of nodes does not matter, only each node's parent and its place among the children."""
    case = Case("places", build, sizes)
    case.module.eval()
    tree, x = draw_tree(case, sizes.length), draw_nodes(case, 1)
    new = torch.randperm(sizes.length, generator=case.generator)
    old = new.argsort().tolist()
    moved = Nodes(
        tuple(-1 if tree.parents[a] < 0 else int(new[tree.parents[a]]) for a in old), tuple(tree.slots[a] for a in old)
    )
    renumbered = hidden_of(case, x[:, old], [moved])
    case.same(
        "the vectors of a tree with renumbered nodes",
        hidden_of(case, x, [tree])[:, old],
        renumbered,
        axes=("row", "node", "feature"),
    )


def hidden_of(case: Case, x: Tensor, trees: list[Nodes]) -> Tensor:
    return case.module(x, batch_trees(trees))[0]


def draw_nodes(case: Case, batch: int, num_nodes: int | None = None) -> Tensor:
    return case.randn(batch, case.sizes.length if num_nodes is None else num_nodes, case.sizes.input_dim)


def draw_tree(case: Case, num_nodes: int) -> Nodes:
    """Return a random tree in which no node has more than two children."""
    parents, slots, num_children = [-1], [0], [0]
    while len(parents) < num_nodes:
        open_nodes = [node for node, count in enumerate(num_children) if count < CHILDREN]
        parent = open_nodes[case.randint(0, len(open_nodes) - 1)]
        parents.append(parent)
        slots.append(num_children[parent])
        num_children[parent] += 1
        num_children.append(0)
    return Nodes(tuple(parents), tuple(slots))


def is_below(tree: Nodes, node: int, other: int) -> bool:
    """Whether a node is below another, or equal to it."""
    while node >= 0 and node != other:
        node = tree.parents[node]
    return node == other


class OverVectors(nn.Module):
    """The layers of a tree body, above its embedding, as one tree layer."""

    def __init__(self, body: Any):
        super().__init__()
        self.body = body

    def forward(self, x: Tensor, trees: TreeBatch) -> tuple[Tensor]:
        return (self.body.read(x, trees),)


TREE_LAWS: dict[str, Law] = {
    "contract": tree_contract,
    "trees alone": trees_alone,
    "what is below": what_is_below,
    "places": places,
}
