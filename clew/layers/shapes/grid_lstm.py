"""Recurrent layers over two-dimensional grids: the multi-dimensional LSTM and the spatial GRU, from one, two or four
corners."""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.core.taps import Tap
from clew.layers.cell import Taps
from clew.layers.recurrence.lstm_cells import LSTMState
from clew.layers.sequence import uniform_init
from clew.layers.shapes.grids import GridCell, GridLayer


class GridLSTMCell(GridCell):
    """Two-dimensional LSTM (Graves, Fernandez and Schmidhuber 2007): one forget gate for each of two neighbours.

        i      = sigmoid(W_i x + U_i [h_up; h_left] + b_i)         input gate
        f_up   = sigmoid(W_u x + U_u [h_up; h_left] + b_u)         forget gate of the cell above
        f_left = sigmoid(W_l x + U_l [h_up; h_left] + b_l)         forget gate of the cell to the left
        c~     = tanh(W_c x + U_c [h_up; h_left] + b_c)            candidate
        o      = sigmoid(W_o x + U_o [h_up; h_left] + b_o)         output gate
        c      = i * c~ + f_up * c_up + f_left * c_left
        h      = o * tanh(c)

    The paper's peepholes (gates that see c) are left out. On a grid of one row or one column this is an ordinary LSTM.
    """

    def __init__(self, input_dim: int, dim: int):
        super().__init__(input_dim, dim)
        self.input_weight = nn.Parameter(torch.empty(5 * dim, input_dim))
        self.hidden_weight = nn.Parameter(torch.empty(5 * dim, 2 * dim))
        self.bias = nn.Parameter(torch.empty(5 * dim))
        uniform_init(dim**-0.5, self.input_weight, self.hidden_weight, self.bias)
        self.gates = Taps("input", "forget_up", "forget_left", "candidate", "output")
        self.cell_state = Tap()
        self.hidden = Tap()

    def initial_state(self, batch_size: int, *, like: Tensor) -> LSTMState:
        return LSTMState(like.new_zeros(batch_size, 0, self.dim), like.new_zeros(batch_size, 0, self.dim))

    def inputs(self, x: Tensor) -> Tensor:
        return F.linear(x, self.input_weight, self.bias)

    def forward(self, inputs: Tensor, up: LSTMState, left: LSTMState) -> LSTMState:
        i, f_up, f_left, c, o = (inputs + F.linear(torch.cat([up.hidden, left.hidden], -1), self.hidden_weight)).chunk(
            5, -1
        )
        input_gate = self.gates.input(torch.sigmoid(i))
        forget_up = self.gates.forget_up(torch.sigmoid(f_up))
        forget_left = self.gates.forget_left(torch.sigmoid(f_left))
        candidate = self.gates.candidate(torch.tanh(c))
        output_gate = self.gates.output(torch.sigmoid(o))
        cell = self.cell_state(input_gate * candidate + forget_up * up.cell + forget_left * left.cell)
        return LSTMState(self.hidden(output_gate * torch.tanh(cell)), cell)


class GridLSTM(GridLayer):
    """`GridLSTMCell` over grids: `(x (batch, height, width, input_dim), mask) -> (hidden (batch, height, width,
    directions * dim),)`."""

    kernel = "grid_lstm"

    def __init__(self, input_dim: int, dim: int, *, directions: int = 1):
        super().__init__(lambda: GridLSTMCell(input_dim, dim), directions)


class GridGRUState(NamedTuple):
    hidden: Tensor  # (batch, cells, dim)
    above: Tensor  # h of the cell above; on a left neighbour, this is the corner of the next cell


class GridGRUCell(GridCell):
    """Spatial GRU (Wan et al. 2016, Match-SRNN): a weighted mean of three neighbours and a candidate, feature by
    feature.

    q = [h_up; h_left; h_corner]                    the corner is (i-1, j-1)
    r = sigmoid(W_r x + U_r q + b_r)                reset: r_up, r_left, r_corner
    n = tanh(W_n x + U_n (r * q) + b_n)             candidate
    z_up, z_left, z_corner, z_new = softmax(W_z x + U_z q + b_z)           update: the four sum to 1
    h = z_up * h_up + z_left * h_left + z_corner * h_corner + z_new * n
    """

    def __init__(self, input_dim: int, dim: int):
        super().__init__(input_dim, dim)
        self.input_weight = nn.Parameter(torch.empty(8 * dim, input_dim))
        self.hidden_weight = nn.Parameter(torch.empty(7 * dim, 3 * dim))
        self.candidate_weight = nn.Parameter(torch.empty(dim, 3 * dim))
        self.bias = nn.Parameter(torch.empty(8 * dim))
        uniform_init(dim**-0.5, self.input_weight, self.hidden_weight, self.candidate_weight, self.bias)
        self.gates = Taps("reset", "update", "candidate")
        self.hidden = Tap()

    def initial_state(self, batch_size: int, *, like: Tensor) -> GridGRUState:
        return GridGRUState(like.new_zeros(batch_size, 0, self.dim), like.new_zeros(batch_size, 0, self.dim))

    def inputs(self, x: Tensor) -> Tensor:
        return F.linear(x, self.input_weight, self.bias)

    def forward(self, inputs: Tensor, up: GridGRUState, left: GridGRUState) -> GridGRUState:
        neighbours = torch.cat([up.hidden, left.hidden, left.above], -1)  # (batch, cells, 3 * dim)
        from_x, candidate_x = inputs.split_with_sizes([7 * self.dim, self.dim], -1)
        r, z = (from_x + F.linear(neighbours, self.hidden_weight)).split_with_sizes([3 * self.dim, 4 * self.dim], -1)
        reset = self.gates.reset(torch.sigmoid(r))
        update = self.gates.update(z.unflatten(-1, (4, self.dim)).softmax(-2).flatten(-2))
        candidate = self.gates.candidate(torch.tanh(candidate_x + F.linear(reset * neighbours, self.candidate_weight)))
        hidden = self.hidden((update * torch.cat([neighbours, candidate], -1)).unflatten(-1, (4, self.dim)).sum(-2))
        return GridGRUState(hidden, up.hidden)


class GridGRU(GridLayer):
    """`GridGRUCell` over grids: `(x (batch, height, width, input_dim), mask) -> (hidden (batch, height, width,
    directions * dim),)`."""

    def __init__(self, input_dim: int, dim: int, *, directions: int = 1):
        super().__init__(lambda: GridGRUCell(input_dim, dim), directions)


GRID_LAYERS: dict[str, Callable[..., GridLayer]] = {"grid_lstm": GridLSTM, "grid_gru": GridGRU}
