"""LSTMs over trees (Tai et al. 2015): a node's state is computed from its own vector and its children's states. Knows
no words or labels.

All nodes of one depth, in all trees of a batch, are one step, the deepest first: there are as many steps as the deepest
tree has levels, and a step computes only its own nodes. Word vectors at the leaves and zeros at the phrases give the
model for constituency trees; word vectors at all nodes the one for dependency trees. A chain, each node the only child
of the next, is an ordinary LSTM.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.core.errors import UserError
from clew.core.taps import Tap, steps_of_a_loop
from clew.core.tree_batches import TreeBatch, tree_levels
from clew.layers.cell import Taps
from clew.layers.recurrence.lstm_cells import LSTMState
from clew.layers.sequence import uniform_init


class Children(NamedTuple):
    """The level below: its states (children, dim), and for each of them its parent and its slot among the parent's
    children."""

    states: LSTMState
    parents: Tensor
    slots: Tensor


class TreeLSTM(nn.Module):
    """The shared part of Tree-LSTMs: parameters, and the loop from the deepest level up. Gates are stored in the order
    of `cells.LSTM`.

    Taps show one vector per node (batch, nodes, dim), 0 on padding; a node's forget gate is the one that its parent
    applies to it.
    """

    def __init__(self, input_dim: int, dim: int, num_hidden_gates: int = 4, num_slots: int = 1):
        super().__init__()
        if input_dim < 1 or dim < 1:
            raise UserError(f"a Tree-LSTM's widths must be at least 1, not input_dim={input_dim}, dim={dim}")
        self.input_dim = input_dim
        self.dim = dim
        self.input_weight = nn.Parameter(torch.empty(4 * dim, input_dim))
        self.hidden_weight = nn.Parameter(torch.empty(num_hidden_gates * dim, num_slots * dim))
        self.bias = nn.Parameter(torch.empty(4 * dim))
        uniform_init(dim**-0.5, self.input_weight, self.hidden_weight, self.bias)
        self.gates = Taps("input", "forget", "candidate", "output")
        self.cell_state = Tap()
        self.hidden = Tap()

    def forward(self, x: Tensor, trees: TreeBatch) -> LSTMState:
        """Every node's state (batch, nodes, dim) from x (batch, nodes, input_dim); 0 on padding."""
        if x.shape[:2] != trees.depths.shape:
            raise UserError(
                f"x {tuple(x.shape)} must have a vector for each of the (batch, nodes) {tuple(trees.depths.shape)}"
            )
        self.check(trees)
        # Levels by depth: all children of a node are in the level below. By height, a right-branching tree would copy
        # its waiting leaves at every step.
        order, levels = tree_levels(trees)
        projected = F.linear(x.flatten(0, 1)[order], self.input_weight, self.bias)
        empty = projected.new_zeros(0, self.dim)
        below, states = Children(LSTMState(empty, empty), order[:0], order[:0]), [LSTMState(empty, empty)]

        def at_nodes(steps: Sequence[Tensor]) -> Tensor:
            """Rows computed level by level, deepest first, as (batch, nodes, dim). The roots, in the last level, have
            no forget gates."""
            rows = torch.cat(list(steps))
            return (
                rows.new_zeros(x.shape[0] * x.shape[1], self.dim)
                .index_copy(0, order[: len(rows)], rows)
                .view(*x.shape[:2], self.dim)
            )

        with steps_of_a_loop(at_nodes):
            for level, inputs in zip(levels, projected.split([len(level.parents) for level in levels]), strict=True):
                states.append(self.step(inputs, below))
                below = Children(states[-1], level.parents, level.slots)
        hidden, cell = (at_nodes(part) for part in zip(*states, strict=True))
        return LSTMState(hidden, cell)

    def check(self, trees: TreeBatch) -> None:
        """Refuse trees that this layer cannot read."""

    def step(self, inputs: Tensor, children: Children) -> LSTMState:
        """The states of one level's nodes (nodes, dim) from W x + b (nodes, 4 * dim) and their children."""
        raise NotImplementedError

    def join(self, i: Tensor, forget_gates: Tensor, c: Tensor, o: Tensor, children: Children) -> LSTMState:
        """c = i * c~ + sum_k f_k * c_k and h, from the gates' inputs and the forget gates (children, dim)."""
        input_gate = self.gates.input(torch.sigmoid(i))
        forget_gates = self.gates.forget(forget_gates)
        candidate = self.gates.candidate(torch.tanh(c))
        output_gate = self.gates.output(torch.sigmoid(o))
        kept = torch.zeros_like(candidate).index_add(0, children.parents, forget_gates * children.states.cell)
        cell = self.cell_state(input_gate * candidate + kept)
        return LSTMState(self.hidden(output_gate * torch.tanh(cell)), cell)


class ChildSumTreeLSTM(TreeLSTM):
    """Child-sum Tree-LSTM: any number of children, in any order.

    h~  = sum_k h_k
    i   = sigmoid(W_i x + U_i h~ + b_i)         input gate
    f_k = sigmoid(W_f x + U_f h_k + b_f)        forget gate, one per child
    c~  = tanh(W_c x + U_c h~ + b_c)            candidate
    o   = sigmoid(W_o x + U_o h~ + b_o)         output gate
    c   = i * c~ + sum_k f_k * c_k
    h   = o * tanh(c)
    """

    def __init__(self, input_dim: int, dim: int):
        super().__init__(input_dim, dim)

    def step(self, inputs: Tensor, children: Children) -> LSTMState:
        zeros = inputs.new_zeros(len(inputs), self.dim)
        i, f, c, o = inputs.chunk(4, -1)
        hidden_sum = zeros.index_add(0, children.parents, children.states.hidden)
        from_i, _, from_c, from_o = F.linear(hidden_sum, self.hidden_weight).chunk(4, -1)
        forget_weight = self.hidden_weight[self.dim : 2 * self.dim]
        # (children, dim)
        forget_gates = torch.sigmoid(f[children.parents] + F.linear(children.states.hidden, forget_weight))
        return self.join(i + from_i, forget_gates, c + from_c, o + from_o, children)


class NaryTreeLSTM(TreeLSTM):
    """N-ary Tree-LSTM: at most `num_children`, each with its own weights; two for binary constituency trees.

        i   = sigmoid(W_i x + sum_l U_il h_l + b_i)         input gate
        f_k = sigmoid(W_f x + sum_l U_fkl h_l + b_f)        forget gate, one per child
        c~  = tanh(W_c x + sum_l U_cl h_l + b_c)            candidate
        o   = sigmoid(W_o x + sum_l U_ol h_l + b_o)         output gate
        c   = i * c~ + sum_l f_l * c_l
        h   = o * tanh(c)

    h_l and c_l are 0 for a missing child.
    """

    def __init__(self, input_dim: int, dim: int, *, num_children: int = 2):
        if num_children < 1:
            raise UserError(f"num_children ({num_children}) must be at least 1")
        super().__init__(input_dim, dim, 3 + num_children, num_children)
        self.num_children = num_children

    def check(self, trees: TreeBatch) -> None:
        most = int(trees.slots.max()) + 1 if trees.slots.numel() else 0
        if most > self.num_children:
            raise UserError(
                f"a node has {most} children, and this Tree-LSTM takes {self.num_children}; binarise the trees, "
                "build it with more num_children, or use the child-sum Tree-LSTM"
            )

    def step(self, inputs: Tensor, children: Children) -> LSTMState:
        places = children.parents * self.num_children + children.slots
        zeros = inputs.new_zeros(len(inputs) * self.num_children, self.dim)
        # (nodes, num_children * dim)
        hidden = zeros.index_copy(0, places, children.states.hidden).view(len(inputs), -1)
        i, f, c, o = inputs.chunk(4, -1)
        widths = [self.dim, self.num_children * self.dim, self.dim, self.dim]
        from_i, from_f, from_c, from_o = F.linear(hidden, self.hidden_weight).split(widths, -1)
        forget_gates = torch.sigmoid(f[children.parents] + from_f.reshape(-1, self.dim)[places])  # (children, dim)
        return self.join(i + from_i, forget_gates, c + from_c, o + from_o, children)


TREE_LAYERS: dict[str, Callable[..., TreeLSTM]] = {"child_sum_lstm": ChildSumTreeLSTM, "n_ary_lstm": NaryTreeLSTM}
