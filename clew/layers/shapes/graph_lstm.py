"""LSTMs over graphs (Liang et al. 2016; Peng et al. 2017): a node's state is computed from its own vector and the
states of the nodes with an edge to it. Knows no words and no labels.

There are two orders. `given` follows the edges: each node is computed once, after all nodes that lead to it. All nodes
of one level, of all graphs of a batch, are one step; a graph with a cycle is refused. `rounds` updates all nodes
together, repeatedly, from zero states; any graph will do. A chain, each node leading to the next, is an ordinary LSTM;
a tree with edges from children to parents is a child-sum Tree-LSTM.
"""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.core.errors import UserError, unknown
from clew.core.graph_batches import GraphBatch, graph_edges, graph_levels
from clew.core.graphs import CYCLIC
from clew.core.taps import Tap, steps_of_a_loop
from clew.layers.cell import Taps
from clew.layers.recurrence.lstm_cells import LSTMState
from clew.layers.sequence import uniform_init

Order = Literal["given", "rounds"]
ORDERS = ("given", "rounds")


class Neighbours(NamedTuple):
    """The edges into some nodes: the state of each edge's source (edges, dim), the index of its target, and its type
    (edges,)."""

    states: LSTMState
    targets: Tensor
    types: Tensor


class GraphLSTM(nn.Module):
    """Graph LSTM with any number of neighbours and one forget gate per edge. N(j) are the edges into node j, and k is
    an edge's source.

        h~   = sum_k h_k
        i    = sigmoid(W_i x + U_i h~ + b_i)                   input gate
        f_jk = sigmoid(W_f x + U_f h_k + b_f + b_type(jk))     forget gate, one per edge
        c~   = tanh(W_c x + U_c h~ + b_c)                      candidate
        o    = sigmoid(W_o x + U_o h~ + b_o)                   output gate
        c    = i * c~ + sum_k f_jk * c_k
        h    = o * tanh(c)

    By default an edge's type is a bias of its forget gate, initially 0. With a `type_dim` it is an embedding e of that
    width instead, and the outer product h_k (x) e replaces h_k everywhere: the weights of each type are a mixture of
    `type_dim` matrices (Peng et al. 2017). Gates are stored in the order of `cells.LSTM`.

    In `rounds`, c_k and h_k are those of the previous round, 0 in the first. After n rounds a node has seen the nodes
    up to n - 1 edges away: `reach`. A node sees its own last state only through an edge to itself.

    Taps show one vector per node (batch, nodes, dim), and for forget gates one per edge (batch, edges, dim); 0 on
    padding. In `rounds` they show every round, on an axis after the batch.
    """

    both_ways = False

    def __init__(
        self,
        input_dim: int,
        dim: int,
        *,
        num_types: int = 1,
        order: Order = "given",
        num_rounds: int = 4,
        type_dim: int = 0,
    ):
        super().__init__()
        if input_dim < 1 or dim < 1:
            raise UserError(f"a graph LSTM's widths must be at least 1, not input_dim={input_dim}, dim={dim}")
        if num_types < 1 or num_rounds < 1 or type_dim < 0:
            raise UserError(
                "a graph LSTM needs at least 1 type and 1 round, and a type_dim from 0, "
                f"not num_types={num_types}, num_rounds={num_rounds}, type_dim={type_dim}"
            )
        if order not in ORDERS:
            raise unknown("order", order, ORDERS)
        self.input_dim = input_dim
        self.dim = dim
        self.num_types = num_types
        self.order = order
        self.num_rounds = num_rounds
        self.input_weight = nn.Parameter(torch.empty(4 * dim, input_dim))
        self.hidden_weight = nn.Parameter(torch.empty(4 * dim, max(type_dim, 1) * dim))
        self.bias = nn.Parameter(torch.empty(4 * dim))
        uniform_init(dim**-0.5, self.input_weight, self.hidden_weight, self.bias)
        self.type_offsets = None if type_dim else nn.Parameter(torch.zeros(num_types, dim))
        self.type_embedding = nn.Parameter(torch.randn(num_types, type_dim) * type_dim**-0.5) if type_dim else None
        self.gates = Taps("input", "forget", "candidate", "output")
        self.cell_state = Tap()
        self.hidden = Tap()

    @property
    def reach(self) -> int | None:
        """How many edges away a node sees; None: every node from which a path leads to it."""
        return None if self.order == "given" else self.num_rounds - 1

    def forward(self, x: Tensor, graphs: GraphBatch) -> LSTMState:
        """Every node's state (batch, nodes, dim) from x (batch, nodes, input_dim); 0 on padding."""
        self.check(x, graphs)
        return self.along(x, graphs) if self.order == "given" else self.around(x, graphs)

    def check(self, x: Tensor, graphs: GraphBatch) -> None:
        if x.shape[:2] != graphs.levels.shape:
            raise UserError(
                f"x {tuple(x.shape)} must have a vector for each of the (batch, nodes) {tuple(graphs.levels.shape)}"
            )
        most = int(graphs.types.max()) if graphs.types.numel() else 0
        if most >= self.num_types:
            raise UserError(
                f"an edge has the type {most}, and this graph LSTM has {self.num_types}, counted from 0; build it with"
                " more num_types"
            )
        if self.order == "given" and (graphs.levels == CYCLIC).any():
            row, node = (graphs.levels == CYCLIC).nonzero()[0].tolist()
            raise UserError(
                f"graph {row + 1} has no order along its edges: node {node}, counted from 0, is on a cycle or after"
                " one; remove an edge of the cycle, or use order=rounds"
            )

    def along(self, x: Tensor, graphs: GraphBatch) -> LSTMState:
        """Compute each node once, level by level. An edge's state is gathered once, when its source is done."""
        order, edges, levels = graph_levels(graphs)
        projected = F.linear(x.flatten(0, 1)[order], self.input_weight, self.bias)
        empty = LSTMState(projected.new_zeros(0, self.dim), projected.new_zeros(0, self.dim))
        states, arriving = [empty], [[empty] for _ in levels]
        with steps_of_a_loop(
            lambda steps: placed(steps, order, graphs.levels),
            {self.gates.forget: lambda steps: placed(steps, edges, graphs.types)},
        ):
            for level, inputs, arrived in zip(
                levels, projected.split([level.num_nodes for level in levels]), arriving, strict=True
            ):
                state = self.step(inputs, Neighbours(joined(arrived), level.targets, level.types))
                states.append(state)
                parts = (part[level.sources].split([count for _, count in level.leads]) for part in state)
                for (end, _), hidden, cell in zip(level.leads, *parts, strict=True):
                    arriving[end].append(LSTMState(hidden, cell))
        return LSTMState(*(placed(part, order, graphs.levels) for part in zip(*states, strict=True)))

    def around(self, x: Tensor, graphs: GraphBatch) -> LSTMState:
        """Update all nodes together, `num_rounds` times."""
        order, edges, sources, targets, types = graph_edges(graphs)
        projected = F.linear(x.flatten(0, 1)[order], self.input_weight, self.bias)
        state = LSTMState(*projected.new_zeros(2, len(order), self.dim))

        def rounds(at: Tensor, like: Tensor) -> Callable[[Sequence[Tensor]], Tensor]:
            return lambda steps: torch.stack([placed([step], at, like) for step in steps], 1)

        with steps_of_a_loop(rounds(order, graphs.levels), {self.gates.forget: rounds(edges, graphs.types)}):
            for _ in range(self.num_rounds):
                state = self.step(projected, Neighbours(LSTMState(*(part[sources] for part in state)), targets, types))
        return LSTMState(*(placed([part], order, graphs.levels) for part in state))

    def step(self, inputs: Tensor, neighbours: Neighbours) -> LSTMState:
        """The states of nodes (nodes, dim) from W x + b (nodes, 4 * dim) and their neighbours."""
        states, targets, types = neighbours
        i, f, c, o = inputs.chunk(4, -1)
        hidden, forget = states.hidden, f[targets]
        if self.type_embedding is not None:
            # (edges, type_dim * dim)
            hidden = torch.einsum("ed,et->etd", hidden, self.type_embedding[types].to(hidden.dtype)).flatten(1)
        if self.type_offsets is not None:
            forget = forget + self.type_offsets[types].to(forget.dtype)
        hidden_sum = hidden.new_zeros(len(inputs), hidden.shape[1]).index_add(0, targets, hidden)
        from_i, _, from_c, from_o = F.linear(hidden_sum, self.hidden_weight).chunk(4, -1)
        forget = forget + F.linear(hidden, self.hidden_weight[self.dim : 2 * self.dim])  # (edges, dim)
        input_gate = self.gates.input(torch.sigmoid(i + from_i))
        forget_gates = self.gates.forget(torch.sigmoid(forget))
        candidate = self.gates.candidate(torch.tanh(c + from_c))
        output_gate = self.gates.output(torch.sigmoid(o + from_o))
        kept = torch.zeros_like(candidate).index_add(0, targets, forget_gates * states.cell)
        cell = self.cell_state(input_gate * candidate + kept)
        return LSTMState(self.hidden(output_gate * torch.tanh(cell)), cell)


class BothWays(nn.Module):
    """Two layers side by side, one along the edges and one against them; each gives half of every node's vector."""

    both_ways = True

    def __init__(self, forward_layer: GraphLSTM, backward_layer: GraphLSTM):
        super().__init__()
        self.forward_layer = forward_layer
        self.backward_layer = backward_layer
        self.input_dim = forward_layer.input_dim
        self.dim = forward_layer.dim + backward_layer.dim
        self.num_types = forward_layer.num_types

    @property
    def reach(self) -> int | None:
        return self.forward_layer.reach

    def forward(self, x: Tensor, graphs: GraphBatch) -> LSTMState:
        ways = self.forward_layer(x, graphs), self.backward_layer(x, graphs.turned)
        return LSTMState(*(torch.cat(part, -1) for part in zip(*ways, strict=True)))


def joined(states: Sequence[LSTMState]) -> LSTMState:
    return LSTMState(*(torch.cat(part) for part in zip(*states, strict=True)))


def placed(steps: Sequence[Tensor], places: Tensor, like: Tensor) -> Tensor:
    """Put rows, computed step by step, at their places in `like` (batch, places): (batch, places, dim), 0
    elsewhere."""
    rows = torch.cat(list(steps))
    return rows.new_zeros(like.numel(), rows.shape[1]).index_copy(0, places, rows).view(*like.shape, rows.shape[1])


def graph_lstm(
    input_dim: int,
    dim: int,
    *,
    num_types: int = 1,
    order: Order = "given",
    num_rounds: int = 4,
    type_dim: int = 0,
    both_ways: bool = False,
) -> GraphLSTM | BothWays:
    """A graph LSTM; with `both_ways`, two of half the width."""

    def build(width: int) -> GraphLSTM:
        return GraphLSTM(input_dim, width, num_types=num_types, order=order, num_rounds=num_rounds, type_dim=type_dim)

    if not both_ways:
        return build(dim)
    if dim % 2:
        raise UserError(f"both_ways gives half of the width to each direction, so dim ({dim}) must be even")
    return BothWays(build(dim // 2), build(dim // 2))


GRAPH_LAYERS: dict[str, Callable[..., GraphLSTM | BothWays]] = {"graph_lstm": graph_lstm}
